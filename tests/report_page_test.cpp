#include "report/page.h"

#include <gtest/gtest.h>

#include "core/base64.h"
#include "report/html.h"

namespace poem {
namespace {

const char* const kHostile = "</script><img src=x onerror=alert(1)><!--\"'&";

bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(Base64, MatchesTheVectorsOfRfc4648) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  EXPECT_EQ(base64({"\0\xff\xfe", 3}), "AP/+");
  EXPECT_EQ(from_base64("AP/+"), std::string("\0\xff\xfe", 3));
}

TEST(Base64, RefusesWhatIsNotBase64) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg==Zg==", "=Zg=", "Zm9v\n", "Zm9*", "Zh==", "====", "Zm 9v"})
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
}

TEST(Html, NothingOfATextIsMarkup) {
  EXPECT_EQ(escape_html("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(escape_html("ünïcode 図"), "ünïcode 図");
  EXPECT_EQ(escape_html("a\xff\xfe\xc3"), "a\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(escape_html(std::string("a\0b\x1b[31m\x7f", 9)), "a\uFFFDb\uFFFD[31m\uFFFD");
}

TEST(Html, TablesEscapeCaptionTitlesAndCells) {
  const std::string html = html_table({kHostile, {{kHostile, true}, {kHostile}}, {{kHostile, kHostile}}});
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_FALSE(has(html, "<!--"));
  EXPECT_EQ(count(html, "&lt;/script&gt;"), 6u);  // the caption twice: it names the region as well
  EXPECT_EQ(count(html, "class=\"text\""), 2u);   // the first column's title and cell
}

TEST(Html, ListsEscapeNamesAndContents) {
  const std::string html = html_list({{kHostile, kHostile}});
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_EQ(count(html, "&lt;img"), 2u);
}

TEST(ScriptJson, HoldsNothingThatEndsItsElement) {
  const nlohmann::json json = {{kHostile, {kHostile, "\xff"}}};
  const std::string text = script_json(json);
  EXPECT_FALSE(has(text, "<"));
  EXPECT_EQ(nlohmann::json::parse(text), nlohmann::json({{kHostile, {kHostile, "\uFFFD"}}}));
}

TEST(Page, HostileTextsStayTexts) {
  Page page(kHostile, kHostile);
  page.section(kHostile);
  page.details(kHostile, "<p>inside</p>");
  page.draw({{"kind", "lines"}, {"title", kHostile}});
  const std::string html = page.html();
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_FALSE(has(html, "<!--"));
  EXPECT_EQ(count(html, "</script>"), 2u);  // the data's and the script's own
  EXPECT_TRUE(has(html, "<p>inside</p>"));
}

TEST(Page, StandsForItself) {
  Page page("Title", "words");
  page.section("One");
  page.draw({{"kind", "lines"}});
  page.section("Two");
  page.draw({{"kind", "bars"}});
  const std::string html = page.html();
  for (const char* word :
       {"<!DOCTYPE html>", "lang=\"en\"", "<title>Title</title>", "default-src 'none'", "href=\"#s1\"",
        "id=\"s2\"", "data-piece=\"0\"", "data-piece=\"1\"", "[{\"kind\":\"lines\"},{\"kind\":\"bars\"}]",
        "prefers-color-scheme: dark", "@media print", "pieces.lines ="})
    EXPECT_TRUE(has(html, word)) << word;
  EXPECT_EQ(count(html, "http"), 2u);  // http-equiv, and SVG's namespace, which is a name
  EXPECT_FALSE(has(html, "url(http"));
}

TEST(Page, PacksNumbersAsLittleEndianFloats) {
  EXPECT_EQ(packed({1.0f, -2.0f}), nlohmann::json({{"float32", "AACAPwAAAMA="}}));
  EXPECT_EQ(packed({}), nlohmann::json({{"float32", ""}}));
}

}  // namespace
}  // namespace poem

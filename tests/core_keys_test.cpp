#include "core/keys.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/file.h"
#include "expect_error.h"
#include "poem/random.h"
#include "temporary_folder.h"

namespace poem {
namespace {

struct Settings {
  bool flip = false;
  int64_t epochs = 1;
  double rate = 0.5;
  std::optional<double> weight;
  std::string name = "he", free = "anything";
  std::vector<int64_t> hidden = {1};
  std::vector<double> shares = {0.5};
  std::vector<std::string> sets = {"a"}, sources;

  std::vector<Key> keys() {
    return {{"epochs", &epochs, "passes", between(1, 100)},
            {"net.name", &name, "the first weights", one_of({"he", "authors"})},
            {"net.free", &free, "any text"},
            {"net.hidden", &hidden, "units", at_least(1)},
            {"train.flip", &flip, "mirror"},
            {"train.rate", &rate, "the rate", between(0, 1)},
            {"train.weight", &weight, "of a term", at_least(0)},
            {"train.shares", &shares, "when it drops", between(0, 1)},
            {"train.sets", &sets, "names"},
            {"train.sources", OneOrMore{&sources}, "paths"}};
  }
};

class Keys : public testing::Test {
 protected:
  void read(const std::string& yaml) {
    folder_.put("c.yaml", yaml);
    read_yaml(settings_.keys(), folder_ / "c.yaml");
  }
  void set(const std::string& assignment) { set_key(settings_.keys(), assignment); }
  void expect_bad_yaml(const std::string& yaml, const std::vector<std::string>& words) {
    expect_error([&] { read(yaml); }, words);
  }
  void expect_bad_set(const std::string& assignment, const std::vector<std::string>& words) {
    expect_error([&] { set(assignment); }, words);
  }

  Settings settings_;
  TemporaryFolder folder_;
};

TEST_F(Keys, ReadsEveryType) {
  read(
      "epochs: 7\nnet: {name: authors, free: 'a: b', hidden: [3, 4]}\n"
      "train:\n  flip: true\n  rate: 1e-4\n  shares: [0, 0.25, 1]\n  sets: [x=1, y]\n");
  EXPECT_EQ(settings_.epochs, 7);
  EXPECT_EQ(settings_.name, "authors");
  EXPECT_EQ(settings_.free, "a: b");
  EXPECT_EQ(settings_.hidden, (std::vector<int64_t>{3, 4}));
  EXPECT_TRUE(settings_.flip);
  EXPECT_EQ(settings_.rate, 1e-4);
  EXPECT_EQ(settings_.shares, (std::vector<double>{0, 0.25, 1}));
  EXPECT_EQ(settings_.sets, (std::vector<std::string>{"x=1", "y"}));
}

TEST_F(Keys, OneTextOrAList) {
  const auto text = [&] { return value_text(settings_.keys()[9]); };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(text(), "\"\"");
  for (const auto& [yaml, texts, written] : {std::tuple("a: b", Texts{"a: b"}, "\"a: b\""),
                                             {"a#share=0.5", Texts{"a#share=0.5"}, "a#share=0.5"},
                                             {"[a, 'b, c']", Texts{"a", "b, c"}, "[a, \"b, c\"]"},
                                             {"[a]", Texts{"a"}, "a"},
                                             {"[]", Texts{}, "\"\""},
                                             {"", Texts{}, "\"\""},
                                             {"''", Texts{}, "\"\""}}) {
    set(std::string("train.sources=") + (yaml == std::string("a: b") ? "'a: b'" : yaml));
    EXPECT_EQ(settings_.sources, texts) << yaml;
    EXPECT_EQ(text(), written) << yaml;
    set("train.sources=" + text());  // what is written can be read
    EXPECT_EQ(settings_.sources, texts) << yaml;
  }
  read("train:\n  sources:\n    - a\n    - b\n");
  EXPECT_EQ(settings_.sources, (Texts{"a", "b"}));
  expect_bad_set("train.sources={a: b}", {"train.sources is '{a: b}'", "text or list of texts"});
  expect_bad_set("train.sources=[[a], b]", {"train.sources is '[a]'", "text or list of texts"});
}

TEST_F(Keys, AnOptionalNumberMayBeAuto) {
  const auto text = [&] { return value_text(settings_.keys()[6]); };
  EXPECT_EQ(text(), "auto");
  read("train: {weight: 0.25}\n");
  EXPECT_EQ(settings_.weight, 0.25);
  EXPECT_EQ(text(), "0.25");
  expect_bad_yaml("train: {weight: -1}\n", {"c.yaml:1", "train.weight is -1, out of range", "at least 0"});
  expect_bad_yaml("train: {weight: automatic}\n", {"train.weight is 'automatic'", "number or auto"});
  expect_bad_yaml("train: {weight: [auto]}\n", {"train.weight is '[auto]'", "number or auto"});
  expect_bad_yaml("train:\n  weight:\n", {"train.weight", "number or auto"});
  EXPECT_EQ(settings_.weight, 0.25);
  set("train.weight=auto");
  EXPECT_EQ(settings_.weight, std::nullopt);
  set("train.weight=0");
  EXPECT_EQ(settings_.weight, 0);
}

TEST_F(Keys, WhatAFileLeavesOutKeepsItsValue) {
  read("");
  read("# nothing but a comment\n");
  read("train:\n  rate: 0.25\n");
  EXPECT_EQ(settings_.epochs, 1);
  EXPECT_EQ(settings_.rate, 0.25);
}

TEST_F(Keys, ASectionWhoseKeysAreAllCommentedOutIsEmpty) {
  read("train:\n  # rate: 0.25\nepochs: 3\n");
  EXPECT_EQ(settings_.epochs, 3);
}

TEST_F(Keys, AValueOfAnotherTypeIsAnErrorWithItsLine) {
  expect_bad_yaml("net: {}\nepochs: many\n", {"c.yaml:2", "epochs is 'many'", "integer"});
  expect_bad_yaml("epochs: 2.5\n", {"c.yaml:1", "epochs is '2.5'", "integer"});
  expect_bad_yaml("epochs: 99999999999999999999\n", {"epochs"});
  expect_bad_yaml("epochs: [1]\n", {"epochs", "integer"});
  expect_bad_yaml("epochs:\n", {"epochs", "integer"});
  expect_bad_yaml("train:\n\n  flip: 3\n", {"c.yaml:3", "train.flip is '3'", "true or false"});
  expect_bad_yaml("train:\n  rate: fast\n", {"c.yaml:2", "train.rate", "number"});
  expect_bad_yaml("net:\n  hidden: 3\n", {"c.yaml:2", "net.hidden is '3'", "list of integers"});
  expect_bad_yaml("net:\n  hidden: [3, x]\n", {"net.hidden is 'x'", "list of integers"});
  expect_bad_yaml("train:\n  shares: [[1]]\n", {"train.shares", "list of numbers"});
  expect_bad_yaml("net:\n  name: {a: 1}\n", {"c.yaml:2", "net.name.a"});
}

TEST_F(Keys, AValueOutOfRangeIsAnErrorWithTheRange) {
  expect_bad_yaml("epochs: 0\n", {"c.yaml:1", "epochs is 0, out of range", "1 … 100"});
  expect_bad_yaml("epochs: 101\n", {"epochs is 101", "1 … 100"});
  expect_bad_yaml("train: {rate: 1.5}\n", {"train.rate is 1.5", "0 … 1"});
  expect_bad_yaml("train: {rate: .nan}\n", {"train.rate is nan", "0 … 1"});
  expect_bad_yaml("train: {rate: -.inf}\n", {"train.rate is -inf", "0 … 1"});
  expect_bad_yaml("train: {shares: [0.5, 2]}\n", {"train.shares is 2", "0 … 1"});
  expect_bad_yaml("net: {hidden: [0]}\n", {"net.hidden is 0", "at least 1"});
  expect_bad_yaml("net: {name: heh}\n", {"net.name is 'heh'", "nearest is 'he'", "he and authors"});
  read("epochs: 100\n");
  read("epochs: 1\n");
}

TEST_F(Keys, AFailedListLeavesTheOldOne) {
  expect_bad_set("net.hidden=[5, 0]", {"net.hidden"});
  EXPECT_EQ(settings_.hidden, (std::vector<int64_t>{1}));
}

TEST_F(Keys, AnUnknownKeyNamesTheNearest) {
  expect_bad_yaml("train:\n  flip: true\n  rat: 1\n",
                  {"c.yaml:3", "unknown key 'train.rat'", "'train.rate'"});
  expect_bad_yaml("epoch: 1\n", {"c.yaml:1", "unknown key 'epoch'", "'epochs'"});
  expect_bad_yaml("other:\n", {"c.yaml:1", "unknown key 'other'"});
  expect_bad_yaml("train: 3\n", {"c.yaml:1", "train is '3'", "section"});
  expect_bad_set("train.rats=1", {"set train.rats=1", "'train.rate'"});
}

TEST_F(Keys, AKeyTwiceIsAnError) {
  expect_bad_yaml("epochs: 1\nnet: {}\nepochs: 2\n", {"c.yaml:3", "'epochs' appears twice"});
  expect_bad_yaml("train:\n  rate: 1\ntrain:\n  rate: 1\n", {"c.yaml:4", "'train.rate' appears twice"});
  expect_bad_yaml("train.rate: 1\ntrain:\n  rate: 1\n", {"c.yaml:3", "'train.rate' appears twice"});
}

TEST_F(Keys, WhatIsNoMapOfKeysIsAnError) {
  expect_bad_yaml("a: 1\nb: [1\n", {"c.yaml:", "not valid YAML"});
  expect_bad_yaml("a: b: c\n", {"c.yaml:1", "not valid YAML"});
  expect_bad_yaml("- 1\n- 2\n", {"c.yaml", "not a map of keys"});
  expect_bad_yaml("just text\n", {"c.yaml", "not a map of keys"});
  expect_bad_yaml("[1, 2]: 3\n", {"c.yaml:1", "not a key"});
  expect_bad_yaml("epochs: *nowhere\n", {"c.yaml:1", "not valid YAML"});
  expect_error([&] { read_yaml(settings_.keys(), folder_ / "none.yaml"); }, {"none.yaml", "cannot open"});
}

// Whoever follows aliases would never come to an end.
TEST_F(Keys, YamlThatContainsItselfIsAnError) {
  expect_bad_yaml("net:\n  &x {hidden: *x}\n", {"c.yaml:2", "anchor contains itself", "write the value out"});
  expect_bad_yaml("train: &x {sets: [a, [*x]]}\n", {"c.yaml:1", "anchor contains itself"});
  expect_bad_set("train.sets=&x [*x]", {"set train.sets=&x [*x]: ", "anchor contains itself"});
  read("net: {hidden: &sizes [3, 4]}\ntrain: {shares: [0.5]}\n");  // an anchor is no harm
  EXPECT_EQ(settings_.hidden, (std::vector<int64_t>{3, 4}));
}

TEST_F(Keys, YamlThatExplodesIsAnError) {
  std::string bomb = "a0: &a0 {x: 1, y: 2}\n";  // 2²⁰ values in 20 lines
  for (int i = 1; i < 20; ++i) bomb += fmt::format("a{0}: &a{0} {{x: *a{1}, y: *a{1}}}\n", i, i - 1);
  expect_bad_yaml(bomb, {"c.yaml:", "more than 100000 values", "aliases"});
  for (const size_t levels : {200, 100000}) {
    expect_bad_yaml("net:\n  hidden: " + std::string(levels, '[') + std::string(levels, ']'),
                    {"c.yaml:2", "more than 100 levels deep"});
  }
}

TEST_F(Keys, ASecondYamlDocumentIsAnError) {
  expect_bad_yaml("epochs: 3\n---\nepochs: 4\n", {"c.yaml:3", "second YAML document", "---"});
  expect_bad_yaml("---\nepochs: 3\n---\n", {"c.yaml:", "second YAML document"});
  read("---\nepochs: 3\n...\n");
  EXPECT_EQ(settings_.epochs, 3);
}

TEST_F(Keys, SetTakesYamlValues) {
  set("epochs=9");
  set("train.rate=0.1");
  set("train.flip=true");
  set("net.hidden=[8, 9]");
  set("train.sets=[a=b]");
  set("net.free=x=y");
  EXPECT_EQ(settings_.epochs, 9);
  EXPECT_EQ(settings_.rate, 0.1);
  EXPECT_TRUE(settings_.flip);
  EXPECT_EQ(settings_.hidden, (std::vector<int64_t>{8, 9}));
  EXPECT_EQ(settings_.sets, (std::vector<std::string>{"a=b"}));
  EXPECT_EQ(settings_.free, "x=y");
  set("train.sets=[]");
  EXPECT_TRUE(settings_.sets.empty());
}

TEST_F(Keys, AnEmptyValueIsAnEmptyText) {
  set("net.free=");
  EXPECT_EQ(settings_.free, "");
  settings_.free = "x";
  read("net:\n  free:\n");
  EXPECT_EQ(settings_.free, "");
  expect_bad_set("epochs=", {"set epochs=", "integer"});
}

TEST_F(Keys, AnAssignmentThatIsNoneIsAnError) {
  expect_bad_set("epochs", {"set epochs", "no '='"});
  expect_bad_set("=3", {"unknown key ''"});
  expect_bad_set("epochs=[", {"set epochs=[", "not valid YAML"});
  expect_bad_set("epochs=0", {"set epochs=0", "epochs is 0", "1 … 100"});
  expect_bad_set("epochs={a: 1}", {"epochs", "integer"});
  // A section: how to assign one of its keys.
  expect_bad_set("net={free: text, name: he}", {"'net' is a section", "one by one: set net.free=text"});
  expect_bad_set("net=he", {"'net' is a section", "set net.name=VALUE"});
  expect_bad_set("train={sets: [a]}", {"'train' is a section", "set train.flip=VALUE"});
}

TEST_F(Keys, WrittenValuesReadBackEqual) {
  const std::vector<std::string> awkward = {"",
                                            " ",
                                            "a b",
                                            " leads",
                                            "trails ",
                                            "a: b",
                                            "# no comment",
                                            "a #b",
                                            "'",
                                            "\"",
                                            "a\"b'c",
                                            "[x]",
                                            "{x}",
                                            "a, b",
                                            "a,b",
                                            "x]",
                                            "x}",
                                            "- x",
                                            "-",
                                            "?",
                                            "*alias",
                                            "&anchor",
                                            "!tag",
                                            "| x",
                                            "> x",
                                            "%x",
                                            "@x",
                                            "`x",
                                            "~",
                                            "null",
                                            "true",
                                            "no",
                                            "3",
                                            "1e3",
                                            "0x10",
                                            "tab\tin",
                                            "line\nbreak",
                                            "a\\b",
                                            "\\n",
                                            "grüße 犬",
                                            "C:\\x y",
                                            "=",
                                            "name=path,with,commas",
                                            "a:b",
                                            "a:",
                                            ":a",
                                            "---",
                                            "..."};
  for (const std::string& text : awkward) {
    settings_.free = text;
    settings_.sets = {text, "x", text};
    const std::string yaml = to_yaml(settings_.keys(), true);
    settings_.free = "other";
    settings_.sets = {};
    ASSERT_NO_THROW(read(yaml)) << "'" << text << "' in\n" << yaml;
    EXPECT_EQ(settings_.free, text) << yaml;
    EXPECT_EQ(settings_.sets, (std::vector<std::string>{text, "x", text})) << yaml;
  }
}

TEST_F(Keys, WrittenNumbersReadBackToTheLastBit) {
  std::vector<double> numbers = {0, 0.1, 1e-4, 1.0 / 3, 1e-300, 5e-324, 1, std::nextafter(0.1, 1)};
  Stream stream(1, "numbers");
  for (int i = 0; i < 200; ++i)
    numbers.push_back(std::ldexp(stream.uniform(), -static_cast<int>(stream.below(60))));
  settings_.shares = numbers;
  settings_.rate = 1e-4;
  settings_.hidden = {1, INT64_MAX, 1 << 20};
  const std::string yaml = to_yaml(settings_.keys(), false);
  settings_.shares = {};
  settings_.rate = 0;
  settings_.hidden = {};
  read(yaml);
  EXPECT_EQ(settings_.shares, numbers);
  EXPECT_EQ(settings_.rate, 1e-4);
  EXPECT_EQ(settings_.hidden, (std::vector<int64_t>{1, INT64_MAX, 1 << 20}));
}

TEST_F(Keys, KeysWithoutSectionMayFollowASection) {
  std::vector<Key> keys = settings_.keys();
  std::rotate(keys.begin(), keys.begin() + 1, keys.end());  // epochs comes last
  settings_.epochs = 42;
  folder_.put("c.yaml", to_yaml(keys, true));
  settings_.epochs = 1;
  read_yaml(keys, folder_ / "c.yaml");
  EXPECT_EQ(settings_.epochs, 42);
}

TEST_F(Keys, TheReferenceTableHasALineAKey) {
  const std::string table = to_markdown(settings_.keys());
  EXPECT_NE(table.find("| `epochs` | integer | `1` | 1 … 100 | passes |\n"), std::string::npos) << table;
  EXPECT_NE(table.find("| `net.name` | text | `he` | he, authors | the first weights |\n"),
            std::string::npos);
  EXPECT_NE(table.find("| `train.weight` | number or auto | `auto` | at least 0 | of a term |\n"),
            std::string::npos);
  EXPECT_NE(table.find("| `train.shares` | list of numbers | `[0.5]` | 0 … 1 |"), std::string::npos);
}

}  // namespace
}  // namespace poem

#include "serve/form.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "poem/random.h"

namespace poem {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=X";

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

// Every image of the form as NAME=CONTENT, or the status and the reason of a refusal.
std::vector<std::string> read(const std::string& type, const std::string& body, int64_t most = 5) {
  const auto result = read_form(type, body, most);
  if (const auto* answer = std::get_if<Answer>(&result))
    return {std::to_string(answer->status) + " " +
            nlohmann::json::parse(answer->body)["error"].get<std::string>()};
  std::vector<std::string> images;
  for (const Upload& upload : std::get<std::vector<Upload>>(result))
    images.push_back(upload.name + "=" + std::string(upload.bytes));
  return images;
}

using Images = std::vector<std::string>;

std::string part(const std::string& head, const std::string& content) {
  return "--X\r\n" + head + "\r\n\r\n" + content + "\r\n";
}

std::string disposition(const std::string& value) { return "Content-Disposition: " + value; }

// What a form has to say whose second part has this head. The images around it must not be lost.
Images around(const std::string& head, const std::string& content = "2") {
  const std::string file = disposition(R"(form-data; name="f"; filename=")");
  return read(kType, part(file + "a\"", "1") + part(head, content) + part(file + "c\"", "3") + "--X--\r\n");
}

void expect_refused(const Images& got, const std::string& words) {
  ASSERT_EQ(got.size(), 1u) << words;
  EXPECT_EQ(got[0].find("400 "), 0u) << got[0];
  EXPECT_NE(got[0].find(words), std::string::npos) << got[0];
}

TEST(Form, IsKnownByItsMediaType) {
  for (const char* type :
       {"multipart/form-data", "Multipart/Form-Data; boundary=X", " MULTIPART/FORM-DATA ;x"})
    EXPECT_TRUE(is_form(type)) << type;
  for (const char* type : {"", ";", "multipart/mixed; boundary=X", "image/png", "multipart/form-data-2",
                           "image/png; multipart/form-data", "application/json"})
    EXPECT_FALSE(is_form(type)) << type;
}

TEST(Form, TheBoundaryIsAParameterOfTheType) {
  const std::string head = disposition("form-data; name=f; filename=a");
  const auto form = [&](const std::string& boundary) {
    return "--" + boundary + "\r\n" + head + "\r\n\r\n1\r\n--" + boundary + "--\r\n";
  };
  for (const char* parameters : {"boundary=X", "Boundary=X", "BOUNDARY=\"X\"", " boundary = X ",
                                 "charset=\"utf-8; boundary=Y\";boundary=X", "boundary=X; charset=utf-8",
                                 "boundary=X;", ";; boundary=X; "})
    EXPECT_EQ(read(std::string("Multipart/Form-Data;") + parameters, form("X")), Images{"a=1"}) << parameters;
  for (const std::string& boundary :
       {std::string("----=_Part:1?"), std::string("*****"), std::string(70, 'b')})
    EXPECT_EQ(read("multipart/form-data; boundary=" + boundary, form(boundary)), Images{"a=1"}) << boundary;
  EXPECT_EQ(read("multipart/form-data; boundary=\"a b;\\\"c\"", form("a b;\"c")), Images{"a=1"});

  for (const char* parameters : {"", ";", "; charset=utf-8", "; boundary=\"\"", "; xboundary=X"})
    expect_refused(read(std::string("multipart/form-data") + parameters, form("X")),
                   "names no boundary; write");
  for (const char* parameters :
       {" boundary=X", "; boundary", "; boundary=", "; boundary=\"X", "; boundary=X Y",
        "; boundary=X; Boundary=Y", "; boundary=X\"Y\"", "; boundary=\"X\r\n\"", "; =X"})
    expect_refused(read(std::string("multipart/form-data") + parameters, form("X")), "cannot be read; write");
  expect_refused(read("multipart/form-data; boundary=" + std::string(71, 'b'), form(std::string(71, 'b'))),
                 "boundary has 71 bytes, 70 are allowed");
}

TEST(Form, ContentDispositionsHaveManyForms) {
  for (const char* value : {R"(form-data; name="f"; filename="b")", R"(form-data; name="f" ; filename="b")",
                            R"(form-data;name=f;filename=b)", "form-data;\tname = f\t;\tfilename\t=\t\"b\" ",
                            R"(Form-Data; Name="f"; FileName="b")", R"(form-data; filename="b"; name="f")",
                            R"(form-data; name="f"; filename="b";)", R"(form-data; name=""; filename="b")",
                            R"(form-data; name="a;b=\"c"; x=y; filename="b")",
                            R"(form-data; name="f"; filename*=UTF-8''%62%63; filename="b")",
                            R"(form-data; name="f"; filename="b"; filename*=UTF-8'en'%62%63)"})
    EXPECT_EQ(around(disposition(value)), (Images{"a=1", "b=2", "c=3"})) << value;
  for (const char* name : {"content-disposition:", "CONTENT-DISPOSITION :", "X: y\r\nContent-Disposition:\t"})
    EXPECT_EQ(around(std::string(name) + "form-data; name=f; filename=b"), (Images{"a=1", "b=2", "c=3"}))
        << name;

  for (const char* value : {"", "form-data", "form-data; filename=b", "attachment; name=f; filename=b",
                            "form-data name=f; filename=b", "form-data; name=f filename=b",
                            "form-data, name=f; filename=b", R"(form-data; name="f"; filename="b)",
                            R"(form-data; name="f"; filename="b\")", R"(form-data; name="f"; filename="b"c")",
                            R"(form-data; name="f"filename="b")", "form-data; name=f; filename=",
                            "form-data; name=f; filename", "form-data; name=f; filename=a; filename=b",
                            "form-data; name=f; name=g; filename=b", "form-data; name=f; =b"})
    expect_refused(around(disposition(value)),
                   "part 2 of the form has a Content-Disposition that cannot be read");
}

TEST(Form, NamesAreWhatTheClientCallsTheFile) {
  const auto name = [](const std::string& quoted) {
    const Images images = around(disposition("form-data; name=f; filename=\"" + quoted + "\""), "");
    return images.size() == 3 ? images[1] : images[0];
  };
  EXPECT_EQ(name("b c;d=e.png"), "b c;d=e.png=");
  EXPECT_EQ(name(R"(b\"c\\d)"), R"(b"c\d=)");
  EXPECT_EQ(name(R"(C:\photos\b.png)"), R"(C:\photos\b.png=)");
  EXPECT_EQ(name("b%22\xc3\xa9\xff\t"), "b%22\xc3\xa9\xff\t=");
  EXPECT_EQ(name("--X--"), "--X--=");
  EXPECT_EQ(name(std::string(4096, 'b')), std::string(4096, 'b') + "=");
  EXPECT_EQ(name(std::string(4097, 'b')), "400 an image has a name of 4097 bytes, 4096 are allowed");
}

TEST(Form, EveryFileIsAnImage) {
  const std::string field = disposition("form-data; name=f"), image = "\r\nContent-Type: Image/PNG";
  EXPECT_EQ(around(field + image), (Images{"a=1", "image 1=2", "c=3"}));
  EXPECT_EQ(around("content-type:image/png\r\n" + field), (Images{"a=1", "image 1=2", "c=3"}));
  EXPECT_EQ(around(field + "; filename*=UTF-8''b"), (Images{"a=1", "image 1=2", "c=3"}));
  EXPECT_EQ(around(field + "; filename=\"\""), (Images{"a=1", "image 1=2", "c=3"}));
  EXPECT_EQ(around(field + "; filename=\"\"", ""), (Images{"a=1", "c=3"}));  // a field without a file
  EXPECT_EQ(around(field + "; filename=\"\"" + image, ""), (Images{"a=1", "image 1=", "c=3"}));
  for (const char* type :
       {"", "\r\nContent-Type: text/plain", "\r\nContent-Type: x-image/png", "\r\nX: image/png"})
    EXPECT_EQ(around(field + type), (Images{"a=1", "c=3"})) << type;
  expect_refused(around(field + "\r\nContent-Type: multipart/mixed; boundary=Y"),
                 "part 2 of the form has parts itself");
}

TEST(Form, HeadersHaveLimits) {
  const std::string file = disposition("form-data; name=f; filename=b");
  for (const char* head : {"", "X", "X\r\nY: z", ": x", " X: y", "X Y: z", "X: y\r\n folded: z", "X: y\nZ: w",
                           "X: y\rz", "X: y\x01"})
    expect_refused(around(head[0] == '\0' ? "" : file + "\r\n" + head), "part 2 of the form has a ");
  expect_refused(around(file + "\r\n" + file), "two headers content-disposition");
  expect_refused(around(file + "\r\nContent-Type: text/plain\r\nContent-type: image/png"),
                 "two headers content-type");
  EXPECT_EQ(around(file + repeated("\r\nX: y", 15)), (Images{"a=1", "b=2", "c=3"}));
  expect_refused(around(file + repeated("\r\nX: y", 16)), "part 2 of the form has more than 16 headers");
  const auto padded = [&](size_t bytes) {
    return file + "\r\nX: " + std::string(bytes - file.size() - 5, 'x');
  };
  EXPECT_EQ(around(padded(8192)), (Images{"a=1", "b=2", "c=3"}));
  expect_refused(around(padded(8193)), "part 2 of the form has headers of more than 8192 bytes");
  expect_refused(read(kType, "--X\r\n" + file + "\r\n--X--"),
                 "part 1 of the form has no empty line after its headers");
  expect_refused(read(kType, "--X\r\n--X--"), "part 1 of the form has no empty line after its headers");
}

TEST(Form, PartsEndAtTheBoundary) {
  const std::string file = disposition("form-data; name=f; filename=a");
  const auto form = [&](const std::string& content) { return part(file, content) + "--X--"; };
  for (const char* content :
       {"", "\r\n", "\r\n\r\n", "1--X", "\n--X", "\r\n--", "\r\n-X", "\r\n--x", "\r", "\r\r\n\n--X--"})
    EXPECT_EQ(read(kType, form(content)), Images{"a=" + std::string(content)}) << content;
  EXPECT_EQ(read(kType, form(std::string("\0\r\n\0", 4))), Images{std::string("a=\0\r\n\0", 6)});
  EXPECT_EQ(read(kType, "--X\r\n" + file + "\r\n\r\n--X--"), Images{"a="});  // one line end for both
  EXPECT_EQ(read(kType, "--X\r\n" + file + "\r\n\r\n--X\r\n" + file + "\r\n\r\n1\r\n--X--"),
            (Images{"a=", "a=1"}));
  // Text before and after, and white space after a boundary.
  EXPECT_EQ(read(kType, "\r\n" + form("1")), Images{"a=1"});
  EXPECT_EQ(read(kType, "For old readers.\r\n--\r\n\r\n" + form("1")), Images{"a=1"});
  EXPECT_EQ(read(kType, "--X \t\r\n" + file + "\r\n\r\n1\r\n--X-- \t\r\ntext--X\r\n\r\n"), Images{"a=1"});
  EXPECT_EQ(read(kType, form("1") + "  "), Images{"a=1"});
  EXPECT_EQ(read(kType, "--X--"), Images{});
  EXPECT_EQ(read(kType, "--X--\r\n"), Images{});

  const std::string whole = form("1") + "\r\n";
  for (size_t length = 3; length < whole.size() - 2; ++length)
    expect_refused(read(kType, whole.substr(0, length)), "the form is cut short");
  for (const char* body : {"", "-", "--", "--Y--", " --X--", "\n--X--", "text--X--"})
    expect_refused(read(kType, body), "does not contain the boundary");
  for (const char* end : {"--X\n", "--Xy\r\n", "--X-\r\n", "--X --", "--X--y", "--X--\n"})
    expect_refused(read(kType, part(file, "1") + end + "text"), "begins with its boundary and goes on");
  expect_refused(read(kType, "-" + form("1").substr(2) + form("2")), "empty line before its first boundary");
  expect_refused(read(kType, form("1") + "\r\n" + form("2")), "goes on after the boundary that ends it");
}

TEST(Form, ReadingStopsAtTheFirstFault) {
  const std::string file = part(disposition("form-data; name=f; filename=a"), "1");
  const std::string field = part(disposition("form-data; name=f"), "1");
  EXPECT_EQ(read(kType, repeated(file + field, 5) + "--X--").size(), 5u);
  EXPECT_EQ(read(kType, repeated(file, 6) + "--X\r\nthis is never read"),
            Images{"413 the request has more than the 5 images that one may have"});
  expect_refused(read(kType, file + "--X\r\nY\r\n\r\n" + repeated(file, 6)),
                 "part 2 of the form has a header");
}

// Every line below costs a search with regular expressions seconds, and there is room for hundreds.
TEST(Form, NoBodyTakesLong) {
  const auto start = std::chrono::steady_clock::now();
  const size_t size = 4 << 20;
  const std::string field = disposition("form-data; name=f") + "\r\n";
  for (const std::string& line :
       {disposition("form-data; name=\"") + repeated("\";filename=\"", 200) + repeated("\";filename*=", 200) +
            std::string(2500, 'y') + " y\r\n",
        "Content-Disposition: form-data" + repeated("; name=\"a\"", 700) + "\r\n",
        "Content-Disposition: form-data" + std::string(8000, ' ') + "y\r\n",
        "Content-Disposition: form-data" + std::string(8000, ';') + "\r\n",
        "Content-Disposition: form-data; name=\"" + std::string(8000, '\\') + "\r\n"})
    expect_refused(read(kType, "--X\r\n" + repeated(line, size / line.size()) + "\r\n--X--"), "part 1");
  for (const std::string& content :
       {std::string("\r"), std::string("\r\n"), std::string("\r\n--"), std::string("\r\n-\r\n--"),
        std::string("--X"), std::string("\r\n\r\n")}) {
    const std::string long_one =
        part(field + "Content-Type: image/png", "1" + repeated(content, size / content.size()));
    EXPECT_EQ(read(kType, long_one + "--X--").size(), 1u);
    expect_refused(read(kType, long_one), "cut short");
    read(kType, repeated(content, size / content.size()) + "\r\n--X--");
    read(kType, "--X--\r\n" + repeated(content, size / content.size()));
  }
  EXPECT_EQ(read(kType, repeated(part(disposition("form-data; name=f"), ""), size / 50) + "--X--"), Images{});
  expect_refused(read(kType, "--X" + std::string(size, ' ')), "cut short");
  expect_refused(read("multipart/form-data" + std::string(8000, ';'), "--X--"), "names no boundary");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 20);
}

// The parts of a form by the definition, found by cutting the body at every boundary: the content of each
// whose head has a mark of an image. Empty if the body is not cut as a form must be.
std::optional<std::vector<std::string>> by_hand(const std::string& body) {
  const std::string line = "\r\n--bound";
  const std::string text = "\r\n" + body;
  std::vector<std::string> pieces;
  size_t begin = 0;
  for (size_t end; (end = text.find(line, begin)) != std::string::npos; begin = end + line.size())
    pieces.push_back(text.substr(begin, end - begin));
  if (pieces.empty() || text.compare(begin, 2, "--") != 0 ||
      pieces[0].find("\r\n\r\n", 2) != std::string::npos)
    return std::nullopt;
  std::vector<std::string> contents;
  for (size_t i = 1; i < pieces.size(); ++i) {
    const size_t end = (pieces[i] + "\r\n").find("\r\n\r\n");
    if (end == std::string::npos || pieces[i].substr(0, 2) == "--") return std::nullopt;
    const std::string head = pieces[i].substr(0, end);
    if (head.find("; filename=") != std::string::npos ||
        head.find("\r\nContent-Type: image/") != std::string::npos)
      contents.push_back(pieces[i].substr(std::min(end + 4, pieces[i].size())));
  }
  return contents;
}

// Damages a form in places that the counters choose.
std::string damaged(std::string form, uint64_t trial) {
  Stream random(1, "form", trial);
  const uint64_t faults = 1 + random.bits() % 3;
  for (uint64_t fault = 0; fault < faults && !form.empty(); ++fault) {
    static const std::string kBytes = "\r\n-b \t:;=\"\\X\x01\xff";
    const size_t place = random.bits() % form.size(), length = random.bits() % 12;
    const std::string byte(1, kBytes[random.bits() % kBytes.size()]);
    switch (random.bits() % 6) {
      case 0:
        form.erase(place, length);
        break;
      case 1:
        form.replace(place, 1, byte);
        break;
      case 2:
        form.insert(place, byte);
        break;
      case 3:
        form.insert(place, form.substr(random.bits() % form.size(), 4 * length));
        break;
      case 4:
        form.insert(place, random.bits() % 2 == 0 ? "\r\n--bound" : "\r\n--bound--");
        break;
      default:
        form.resize(place);
    }
  }
  return form;
}

TEST(Form, DamageLosesNoImage) {
  const std::string mark =
      "Content-Disposition: form-data; name=\"f\"; filename=\"a\"\r\nContent-Type: image/png\r\n\r\n";
  const std::string form =
      "--bound\r\n" + mark +
      "first\r\n-content\r\n--bound\r\nContent-Disposition: form-data; name=\"t\"\r\n\r\ntext" +
      "\r\n--bound\r\n" + mark + "\r\n--bound\r\n" + mark + "third\r\n\r\n--\r\n--bound--\r\n";
  int understood = 0, refused = 0;
  for (uint64_t trial = 0; trial < 20000; ++trial) {
    const std::string body = damaged(form, trial);
    const auto read = read_form("multipart/form-data; boundary=bound", body, 100);
    if (std::holds_alternative<Answer>(read)) {
      EXPECT_EQ(std::get<Answer>(read).status, 400);
      ++refused;
      continue;
    }
    ++understood;
    std::vector<std::string> contents;
    for (const Upload& upload : std::get<std::vector<Upload>>(read)) contents.emplace_back(upload.bytes);
    const auto expected = by_hand(body);
    ASSERT_TRUE(expected) << body;
    // What the damage makes an image may be one more.
    for (const std::string& content : *expected)
      EXPECT_EQ(std::count(contents.begin(), contents.end(), content),
                std::count(expected->begin(), expected->end(), content))
          << body;
  }
  EXPECT_GT(understood, 2000);
  EXPECT_GT(refused, 2000);
}

}  // namespace
}  // namespace poem

#include "serve/json_uploads.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace poem {
namespace {

std::vector<JsonUpload> uploads(const std::string& body) {
  return std::get<std::vector<JsonUpload>>(read_json_uploads(body, 3));
}

// The status and the reason.
std::string refusal(const std::string& body) {
  const auto answer = std::get<Answer>(read_json_uploads(body, 3));
  return std::to_string(answer.status) + " " + nlohmann::json::parse(answer.body)["error"].get<std::string>();
}

std::string repeated(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += text;
  return all;
}

TEST(JsonUploads, AreReadInOrder) {
  const auto read =
      uploads(R"( {"images": [{"data": "YWI=", "name": "a"}, {"data": ""}, {"name": "", "data": "Yw=="}]} )");
  ASSERT_EQ(read.size(), 3u);
  EXPECT_EQ(read[0].name, "a");
  EXPECT_EQ(read[0].bytes, "ab");
  EXPECT_EQ(read[1].name, "image 1");
  EXPECT_EQ(read[1].bytes, "");
  EXPECT_EQ(read[2].name, "");
  EXPECT_EQ(read[2].bytes, "c");
  EXPECT_TRUE(uploads(R"({"images": []})").empty());
}

TEST(JsonUploads, OtherFormsAreRefused) {
  for (const char* body : {"",
                           "{",
                           "{}",
                           "[]",
                           "1",
                           "null",
                           R"("images")",
                           R"({"images")",
                           R"({"images": 1})",
                           R"({"images": {}})",
                           R"({"images": []}, 1)",
                           R"({"images": [], "images": []})",
                           R"({"images": [], "name": "a"})",
                           R"({"more": 1, "images": []})",
                           R"({"images": [1]})",
                           R"({"images": ["a"]})",
                           R"({"images": [[]]})",
                           R"({"images": [{}]})",
                           R"({"images": [{"name": "a"}]})",
                           R"({"images": [{"data": 1}]})",
                           R"({"images": [{"data": {}}]})",
                           R"({"images": [{"data": ["YWI="]}]})",
                           R"({"images": [{"data": "YWI="})"})
    EXPECT_EQ(refusal(body).find("400 the body must be {\"images\""), 0u) << body << ": " << refusal(body);
  for (const char* value : {"3", "null", "true", "-1", "1.5", "{}", "[]"})
    EXPECT_EQ(refusal(std::string(R"({"images": [{"name": )") + value + "}]}"), "400 'name' is not a text");
  EXPECT_EQ(refusal(R"({"images": [{"data": "", "date": 1}]})").find("400 unknown field 'date': "), 0u);
  EXPECT_EQ(refusal(R"({"images": [{"data": "*", "name": "a.png"}]})"), "400 a.png: 'data' is not base64");
}

TEST(JsonUploads, NamesHaveALimit) {
  const auto named = [](size_t bytes) {
    return R"({"images": [{"data": "", "name": ")" + std::string(bytes, 'x') + R"("}]})";
  };
  EXPECT_EQ(uploads(named(4096))[0].name.size(), 4096u);
  EXPECT_EQ(refusal(named(4097)), "400 an image has a name of 4097 bytes, 4096 are allowed");
}

// A document of these would take a hundred times the memory of the body.
TEST(JsonUploads, ReadingStopsAtTheFirstFault) {
  EXPECT_EQ(refusal(repeated("[", 1 << 20)).find("400 the body must"), 0u);
  EXPECT_EQ(refusal(repeated(R"({"images":)", 1 << 20)).find("400 the body must"), 0u);
  const std::string many = R"({"images": [)" + repeated(R"({"data": ""},)", 4);
  EXPECT_EQ(refusal(many + "this is never read").find("413 the request has more than the 3 images"), 0u);
  EXPECT_EQ(refusal(R"({"images": [{}, this is never read)").find("400 the body must"), 0u);
}

}  // namespace
}  // namespace poem

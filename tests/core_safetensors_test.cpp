#include "core/safetensors.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

using nlohmann::json;

constexpr at::ScalarType kTypes[] = {at::kByte, at::kChar,  at::kShort,  at::kInt,      at::kLong,
                                     at::kHalf, at::kFloat, at::kDouble, at::kBFloat16, at::kBool};

std::string with_header(const std::string& header, const std::string& data = "") {
  const uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + data;
}

class Safetensors : public testing::Test {
 protected:
  void expect_damaged(const std::string& bytes) {
    folder_.put("a.safetensors", bytes);
    expect_error([&] { read_safetensors(path_); }, {"a.safetensors", "not a whole safetensors file"});
    expect_error([&] { read_safetensors(path_, "bake it again"); }, {"a.safetensors", "(bake it again)"});
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_ / "a.safetensors";
};

TEST_F(Safetensors, EveryTypeAndShapeComesBack) {
  TensorFile file;
  for (const at::ScalarType type : kTypes) {
    const std::string name = c10::toString(type);
    const at::Tensor values = at::arange(24).view({2, 3, 4}).to(type);
    file.tensors[name] = values;
    file.tensors[name + " transposed"] = values.transpose(0, 2);
    file.tensors[name + " strided"] = values.select(2, 1);
    file.tensors[name + " empty"] = at::empty({3, 0, 2}, type);
    file.tensors[name + " none"] = at::empty({0}, type);
    file.tensors[name + " scalar"] = at::ones({}, type);
  }
  file.tensors["channels last"] = at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  file.tensors["with gradient"] = at::rand({3}).requires_grad_();
  file.tensors["expanded"] = at::ones({1, 3}).expand({4, 3});
  file.metadata = {{"a", "text"}, {"empty", ""}, {"quotes \"\\", "line\nbreak grüße"}};
  write_safetensors(path_, file);
  const TensorFile back = read_safetensors(path_);
  EXPECT_EQ(back.path, path_);
  EXPECT_EQ(back.metadata, file.metadata);
  ASSERT_EQ(back.tensors.size(), file.tensors.size());
  for (const auto& [name, tensor] : file.tensors) {
    const at::Tensor& read = back.tensor(name);
    EXPECT_EQ(read.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(read.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(read.equal(tensor)) << name;
  }
}

TEST_F(Safetensors, KeepsEveryBitOfAFloat) {
  const double inf = std::numeric_limits<double>::infinity();
  TensorFile file;
  file.tensors["x"] = at::tensor({-0.0, inf, -inf, 5e-324, 0.1, std::nan("")}, at::kDouble);
  write_safetensors(path_, file);
  const at::Tensor back = read_safetensors(path_).tensor("x");
  EXPECT_EQ(std::memcmp(back.data_ptr(), file.tensors["x"].data_ptr(), 6 * sizeof(double)), 0);
}

TEST_F(Safetensors, TheBytesAreLengthHeaderData) {
  TensorFile file;
  file.tensors["b"] = at::tensor({1.5f, -2.0f}).view({2, 1});
  file.tensors["a"] = at::tensor({7, 8, 9}, at::kByte);
  file.metadata = {{"format", "x"}};
  write_safetensors(path_, file);

  const std::string bytes = read_file(path_);
  uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length * 256 + static_cast<uint8_t>(bytes[i]);  // little endian
  EXPECT_EQ(length % 8, 0u);
  ASSERT_EQ(bytes.size(), 8 + length + 3 + 8);
  EXPECT_EQ(bytes[8], '{');
  const json header = json::parse(bytes.substr(8, length));
  EXPECT_EQ(header, (json{{"__metadata__", {{"format", "x"}}},
                          {"a", {{"dtype", "U8"}, {"shape", {3}}, {"data_offsets", {0, 3}}}},
                          {"b", {{"dtype", "F32"}, {"shape", {2, 1}}, {"data_offsets", {3, 11}}}}}));
  const std::string data = bytes.substr(8 + length);
  EXPECT_EQ(data.substr(0, 3), "\x07\x08\x09");
  EXPECT_EQ(data.substr(3), std::string("\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8));  // IEEE 754
}

TEST_F(Safetensors, ReadsWhatOthersWrite) {
  folder_.put("a.safetensors", with_header(R"({"w":{"data_offsets":[4,8],"dtype":"I32","shape":[]},)"
                                           R"("v":{"dtype":"I16","shape":[1,2],"data_offsets":[0,4]}}   )",
                                           std::string("\x01\x00\xff\xff\x05\x00\x00\x00", 8)));
  const TensorFile file = read_safetensors(path_);
  EXPECT_TRUE(file.metadata.empty());
  EXPECT_TRUE(file.tensor("v").equal(at::tensor({1, -1}, at::kShort).view({1, 2})));
  EXPECT_TRUE(file.tensor("w").equal(at::full({}, 5, at::kInt)));
}

TEST_F(Safetensors, TheSameContentGivesTheSameBytes) {
  TensorFile first, second;
  const at::Tensor values = at::arange(12).to(at::kFloat).view({3, 4});
  first.tensors = {{"a", values}, {"b", values.t()}};
  second.tensors = {{"b", values.t().contiguous()}, {"a", values.clone()}};
  first.metadata = second.metadata = {{"k", "v"}, {"a", "b"}};
  second.path = "elsewhere";
  write_safetensors(folder_ / "1", first);
  write_safetensors(folder_ / "2", second);
  EXPECT_EQ(read_file(folder_ / "1"), read_file(folder_ / "2"));
}

TEST_F(Safetensors, NothingAtAllIsAFileToo) {
  write_safetensors(path_, {});
  EXPECT_TRUE(read_safetensors(path_).tensors.empty());
}

TEST_F(Safetensors, EveryTruncationIsAnError) {
  TensorFile file;
  file.tensors["a"] = at::arange(3);
  file.metadata = {{"k", "v"}};
  write_safetensors(path_, file);
  const std::string whole = read_file(path_);
  for (size_t size = 0; size < whole.size(); ++size) expect_damaged(whole.substr(0, size));
}

TEST_F(Safetensors, ADamagedHeaderIsAnError) {
  expect_damaged(with_header("not json"));
  expect_damaged(with_header("\xff\xfe\n{"));
  expect_damaged(with_header(""));
  expect_damaged(with_header("[1]"));
  expect_damaged(with_header("3"));
  expect_damaged(with_header("null"));
  expect_damaged(with_header(R"({"a": 3})"));
  expect_damaged(with_header(R"({"a": {}})"));
  expect_damaged(with_header(R"({"__metadata__": {"k": 3}})"));
  expect_damaged(std::string(8, '\xff') + "{}");  // a length beyond everything
}

TEST_F(Safetensors, ATensorThatDoesNotFitIsAnError) {
  const auto file = [](const std::string& type, const std::string& shape, const std::string& offsets) {
    return with_header(
        R"({"a":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}",
        std::string(16, 'x'));
  };
  folder_.put("a.safetensors", file("F32", "[4]", "[0,16]"));
  EXPECT_EQ(read_safetensors(path_).tensor("a").numel(), 4);
  expect_damaged(file("F32", "[5]", "[0,20]"));
  expect_damaged(file("F32", "[4]", "[4,20]"));
  expect_damaged(file("F32", "[4]", "[16,0]"));
  expect_damaged(file("F32", "[3]", "[0,16]"));
  expect_damaged(file("F32", "[-4]", "[0,16]"));
  expect_damaged(file("F32", "[-2,-2]", "[0,16]"));
  expect_damaged(file("F32", "[4]", "[-16,0]"));
  expect_damaged(file("F32", "[4]", "[0]"));
  expect_damaged(file("F32", "[4]", "\"all\""));
  expect_damaged(file("F32", "4", "[0,16]"));
  expect_damaged(file("F32", "[4611686018427387904,4]", "[0,0]"));  // 4 · 2⁶² · 4 is 0 modulo 2⁶⁴
  expect_damaged(file("F32", "[0,4611686018427387904,4611686018427387904]", "[0,0]"));  // its strides
  expect_damaged(file("F31", "[4]", "[0,16]"));
}

TEST_F(Safetensors, TensorsThatOverlapAreAnError) {
  const auto bytes = [](const std::vector<std::pair<int, int>>& places) {
    json header = json::object();
    for (const auto& [begin, end] : places)
      header["t" + std::to_string(header.size())] = {
          {"dtype", "U8"}, {"shape", {end - begin}}, {"data_offsets", {begin, end}}};
    return with_header(header.dump(), std::string(16, 'x'));
  };
  for (const auto& places : std::vector<std::vector<std::pair<int, int>>>{{{0, 16}, {0, 16}},
                                                                          {{0, 16}, {4, 5}},
                                                                          {{8, 16}, {0, 9}},
                                                                          {{0, 4}, {6, 16}, {2, 7}},
                                                                          {{0, 9}, {5, 5}}}) {
    expect_damaged(bytes(places));
    expect_error([&] { read_safetensors(path_); }, {"its tensors 't", "overlap"});
  }
  for (const auto& places : std::vector<std::vector<std::pair<int, int>>>{
           {{8, 16}, {0, 8}}, {{0, 0}, {0, 16}, {0, 0}, {16, 16}}}) {
    folder_.put("a.safetensors", bytes(places));
    EXPECT_EQ(read_safetensors(path_).tensors.size(), places.size());
  }
}

// A file with a hole, which takes no room on the disk.
TEST_F(Safetensors, TensorsMustFitIntoMemory) {
  constexpr uint64_t kSize = uint64_t{1} << 42;
  const std::string number = std::to_string(kSize);
  folder_.put("a.safetensors", with_header(R"({"a":{"dtype":"U8","shape":[)" + number +
                                           R"(],"data_offsets":[0,)" + number + "]}}"));
  std::filesystem::resize_file(path_, read_file(path_).size() + kSize);
  expect_error([&] { read_safetensors(path_); }, {"a.safetensors", "needs 4194304 MiB of memory"});
}

TEST_F(Safetensors, AMissingNameIsAnErrorThatNamesTheFile) {
  TensorFile file;
  file.tensors["a"] = at::ones({1});
  write_safetensors(path_, file);
  const TensorFile back = read_safetensors(path_);
  expect_error([&] { back.tensor("b"); }, {path_, "no tensor 'b'"});
  expect_error([&] { back.text("format"); }, {path_, "no entry 'format'"});
}

TEST_F(Safetensors, AFailureKeepsTheOldFile) {
  TensorFile file;
  file.tensors["a"] = at::ones({1});
  write_safetensors(path_, file);
  const std::string before = read_file(path_);
  file.tensors["b"] = at::ones({2}, at::kComplexFloat);  // the format has no such type
  EXPECT_ANY_THROW(write_safetensors(path_, file));
  EXPECT_EQ(read_file(path_), before);
}

}  // namespace
}  // namespace poem

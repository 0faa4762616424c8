#include "core/npy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "core/file.h"
#include "poem/error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

std::string little(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

// A .npy file as NumPy's format description says it, written independently of the code under test.
std::string npy(const std::string& dictionary, const std::string& elements, int version = 1) {
  return std::string("\x93NUMPY") + little(version, 1) + little(0, 1) +
         little(dictionary.size(), version == 1 ? 2 : 4) + dictionary + elements;
}

std::string dictionary(const std::string& type, const std::string& shape, bool fortran = false) {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}\n", type,
                     fortran ? "True" : "False", shape);
}

std::string deflate_raw(const std::string& bytes) {
  std::string packed(bytes.size() + 100, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = bytes.size();
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = packed.size();
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

// A classic (32-bit) zip of one entry, as numpy.savez_compressed writes small files.
std::string zip(const std::string& name, const std::string& content, int method, uint32_t crc_error = 0) {
  const std::string packed = method == 8 ? deflate_raw(content) : content;
  const uint32_t crc = crc32(0, reinterpret_cast<const Bytef*>(content.data()), content.size()) ^ crc_error;
  const std::string common = little(20, 2) + little(0, 2) + little(method, 2) + little(0, 4) +
                             little(crc, 4) + little(packed.size(), 4) + little(content.size(), 4) +
                             little(name.size(), 2) + little(0, 2);
  const std::string local = "PK\x03\x04" + common + name + packed;
  const std::string entry =
      "PK\x01\x02" + little(20, 2) + common + little(0, 6) + little(0, 4) + little(0, 4) + name;
  return local + entry + "PK\x05\x06" + little(0, 4) + little(1, 2) + little(1, 2) + little(entry.size(), 4) +
         little(local.size(), 4) + little(7, 2) + "comment";
}

class Npy : public ::testing::Test {
 protected:
  void expect_error(const std::string& content, const std::string& words, const std::string& name = "a.npy") {
    write_file(folder / name, content);
    try {
      if (name == "a.npy")
        read_npy(folder / name);
      else
        read_npz(folder / name);
      ADD_FAILURE() << "no error for: " << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(folder / name), std::string::npos) << error.what();
    }
  }
  TemporaryFolder folder;
};

TEST_F(Npy, KeepsEveryTypeAndShape) {
  for (const auto type : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong, at::kHalf,
                          at::kFloat, at::kDouble}) {
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{}, {0}, {1}, {7}, {2, 3}, {3, 0, 2}, {2, 3, 4, 5}}) {
      int64_t count = 1;
      for (const int64_t axis : shape) count *= axis;
      const at::Tensor array = (at::arange(count) - 3).to(type).reshape(shape);
      write_npy(folder / "a.npy", array);
      const at::Tensor back = read_npy(folder / "a.npy");
      ASSERT_EQ(back.scalar_type(), type);
      ASSERT_EQ(back.sizes(), array.sizes());
      EXPECT_TRUE(back.equal(array)) << array;
    }
  }
}

TEST_F(Npy, WritesTheBytesOfTheFormat) {
  write_npy(folder / "a.npy", at::tensor({1, -2}, at::kInt));
  const std::string file = read_file(folder / "a.npy");
  ASSERT_EQ(file.size(), 128u + 8u);
  EXPECT_EQ(file.substr(0, 10), std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  EXPECT_EQ(file.substr(10, 57), "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }");
  EXPECT_EQ(file[127], '\n');
  EXPECT_EQ(file.substr(128), little(1, 4) + little(0xfffffffe, 4));
}

TEST_F(Npy, ReadsAllHeaderVersionsAndUnalignedElements) {
  for (int version = 1; version <= 3; ++version) {
    for (int pad = 0; pad < 4; ++pad) {  // shifts the elements off their alignment
      write_file(folder / "a.npy", npy(std::string(pad, ' ') + dictionary("<i2", "(2, 2)"),
                                       little(0x0004000300020001, 8), version));
      EXPECT_TRUE(read_npy(folder / "a.npy").equal(at::tensor({1, 2, 3, 4}, at::kShort).view({2, 2})));
    }
  }
  write_file(folder / "a.npy", npy("{'shape': (2L,), 'fortran_order': False, 'descr': '<u1'}", "\x05\xff"));
  EXPECT_TRUE(read_npy(folder / "a.npy").equal(at::tensor({5, 255}, at::kByte)));
}

TEST_F(Npy, ConvertsFortranOrder) {
  // Element (i, j, k) = 100 i + 10 j + k; the first index varies fastest in the file.
  std::string elements;
  for (int k = 0; k < 2; ++k)
    for (int j = 0; j < 3; ++j)
      for (int i = 0; i < 2; ++i) elements += little(100 * i + 10 * j + k, 8);
  write_file(folder / "a.npy", npy(dictionary("<i8", "(2, 3, 2)", true), elements));
  const at::Tensor array = read_npy(folder / "a.npy");
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      for (int k = 0; k < 2; ++k) EXPECT_EQ(array[i][j][k].item<int64_t>(), 100 * i + 10 * j + k);
  EXPECT_TRUE(array.is_contiguous());
}

std::string big(uint64_t value, int bytes) {
  const std::string text = little(value, bytes);
  return {text.rbegin(), text.rend()};
}

// Values that only their exact type and byte order give back.
TEST_F(Npy, ConvertsEveryIntegerAndByteOrderExactly) {
  const auto read = [&](const std::string& type, const std::vector<uint64_t>& bits, int bytes) {
    std::string elements;
    for (const uint64_t value : bits) elements += type[0] == '>' ? big(value, bytes) : little(value, bytes);
    const std::string array = npy(dictionary(type, fmt::format("({},)", bits.size())), elements);
    write_file(folder / "a.npy", array);
    write_file(folder / "a.npz", zip("x.npy", array, 8));
    const at::Tensor plain = read_npy(folder / "a.npy"), packed = read_npz(folder / "a.npz").at("x");
    EXPECT_TRUE(plain.equal(packed)) << type;
    EXPECT_EQ(plain.scalar_type(), packed.scalar_type()) << type;
    return plain;
  };
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const std::string order : {"<", ">"}) {
    EXPECT_TRUE(read(order + "u2", {1, 0xfffe, 256}, 2).equal(at::tensor({1, 65534, 256}, at::kInt)));
    EXPECT_TRUE(read(order + "u4", {1, 0xfffffffe}, 4).equal(at::tensor({1l, 4294967294l}, at::kLong)));
    EXPECT_TRUE(read(order + "u8", {1, 0x7fffffffffffffff}, 8).equal(at::tensor({1l, most}, at::kLong)));
    EXPECT_TRUE(read(order + "i2", {0xfffe, 256}, 2).equal(at::tensor({-2, 256}, at::kShort)));
    EXPECT_TRUE(read(order + "i4", {0xfffffffe, 256}, 4).equal(at::tensor({-2, 256}, at::kInt)));
    EXPECT_TRUE(read(order + "i8", {0x20000000000001, 3}, 8).equal(at::tensor({(1l << 53) + 1, 3l})));
    EXPECT_TRUE(read(order + "f2", {0x3c00, 0xc100}, 2).equal(at::tensor({1., -2.5}).to(at::kHalf)));
    EXPECT_TRUE(read(order + "f4", {0x3dcccccd, 0xc0200000}, 4).equal(at::tensor({.1f, -2.5f})));
    EXPECT_TRUE(read(order + "f8", {0x3fefffffffffdcd1}, 8).equal(at::tensor({1 - 1e-12}, at::kDouble)));
  }
  EXPECT_TRUE(read("|b1", {0, 1, 2, 128}, 1).equal(at::tensor({0, 1, 1, 1}).to(at::kBool)));
  for (const char* type : {"<u8", ">u8"}) {
    expect_error(npy(dictionary(type, "(1,)"), std::string(8, '\xff')), "contains 18446744073709551615");
  }
}

TEST_F(Npy, BlocksOfRowsAreTheArray) {
  for (const bool fortran : {false, true}) {
    for (const char* type : {"<i4", ">i4"}) {
      std::string elements;
      for (int i = 0; i < 7 * 3; ++i) elements += type[0] == '>' ? big(i, 4) : little(i, 4);
      const std::string array = npy(dictionary(type, "(7, 3)", fortran), elements);
      write_file(folder / "a.npy", array);
      write_file(folder / "a.npz", zip("x.npy", array, 8));
      for (const StoredArray& stored : {open_npy(folder / "a.npy"), open_npz(folder / "a.npz").at("x")}) {
        EXPECT_EQ(stored.shape(), (std::vector<int64_t>{7, 3}));
        EXPECT_EQ(stored.type(), "int32");
        EXPECT_EQ(stored.bytes(), 7 * 3 * 4u);
        for (const int64_t rows : {1, 3, 7, 100}) {
          std::vector<at::Tensor> blocks;
          stored.for_each_block(rows, [&](const at::Tensor& block) { blocks.push_back(block); });
          EXPECT_EQ(blocks[0].size(0), std::min<int64_t>(rows, 7));
          EXPECT_TRUE(at::cat(blocks).equal(read_npy(folder / "a.npy")));
        }
      }
    }
  }
}

// A file of a few kilobytes: whoever unpacked it to look at the header would need gigabytes.
TEST_F(Npy, OpeningReadsHeadersOnly) {
  const std::string header = npy(dictionary("|u1", "(1000, 3, 1000, 1000)"), "");
  std::string content = zip("images.npy", header + std::string(100000, '\0'), 8);
  const uint32_t claimed = header.size() + 3000000000u;
  const std::string was = little(header.size() + 100000, 4);
  for (size_t at = content.find(was); at != content.npos; at = content.find(was, at + 1))
    content.replace(at, 4, little(claimed, 4));
  expect_error(content, "claims an impossible size", "a.npz");
  // As large as deflate can make of so many bytes.
  content = zip("images.npy", header + std::string(3000000, '\0'), 8);
  write_file(folder / "a.npz", content);
  expect_error(content, "has 3000000 bytes of elements, its shape (1000, 3, 1000, 1000) needs 3000000000",
               "a.npz");
}

TEST_F(Npy, RefusesBrokenFiles) {
  const std::string good = npy(dictionary("<i4", "(3,)"), std::string(12, 'x'));
  expect_error("", "is empty");
  expect_error("\x93NUM", "is not a npy array");
  expect_error("hello world, this is text", "is not a npy array");
  for (const size_t size : {size_t{14}, size_t{40}})
    expect_error(good.substr(0, size), "ends inside its npy header");
  expect_error(good.substr(0, good.size() - 1), "has 11 bytes of elements");
  expect_error(good + "x", "has 13 bytes of elements, its shape (3) needs 12");
  expect_error(npy(dictionary("<i4", "(3,)"), "", 4), "npy version 4");
  for (const char* type : {"<f16", "<U5", "|S3", "|O", "<M8[ns]", "|V4", "<i3"})
    expect_error(npy(dictionary(type, "(3,)"), std::string(48, 'x')), fmt::format("type {}", type));
  expect_error(npy(dictionary("<c8", "(3,)"), std::string(24, 'x')), "type <c8");
  expect_error(npy("{'descr': [('a', '<i4')], 'fortran_order': False, 'shape': (1,)}", "1234"),
               "type [('a', '<i4')]");
  expect_error(npy(dictionary("<i4", "3"), std::string(12, 'x')), "not a tuple");
  expect_error(npy(dictionary("<i4", "(-3,)"), std::string(12, 'x')), "not a tuple of sizes");
  expect_error(npy(dictionary("<i4", "(99999999999999999999,)"), "1234"), "too large");
  expect_error(npy(dictionary("<i4", "(4294967296, 4294967296)"), "1234"), "too large");
  expect_error(npy(dictionary("<i4", "(0, 72057594037927936, 72057594037927936)"), ""), "too large");
  expect_error(npy(dictionary("<i4", "(1000, 1000)"), "1234"), "has 4 bytes of elements");
  expect_error(npy(std::string((1 << 20) + 1, ' '), "", 2), "npy header of 1048577 bytes");
  expect_error(npy("{'descr': '<i4', 'shape': (1,)}", "1234"), "has no 'fortran_order'");
  EXPECT_THROW(read_npy(folder / "missing.npy"), Error);
  EXPECT_THROW(read_npy(folder.path()), Error);
}

TEST_F(Npy, TypesHaveTheNamesOfNumPy) {
  const std::pair<at::ScalarType, const char*> names[] = {{at::kBool, "bool"},
                                                          {at::kByte, "uint8"},
                                                          {at::kChar, "int8"},
                                                          {at::kShort, "int16"},
                                                          {at::kInt, "int32"},
                                                          {at::kLong, "int64"},
                                                          {at::kHalf, "float16"},
                                                          {at::kFloat, "float32"},
                                                          {at::kDouble, "float64"},
                                                          // What npy cannot hold is named in an error.
                                                          {at::kBFloat16, "bfloat16"},
                                                          {at::kComplexFloat, "complex64"},
                                                          {at::kComplexDouble, "complex128"}};
  for (const auto& [type, name] : names) EXPECT_EQ(numpy_type(at::zeros({1}, type)), name);
}

TEST_F(Npy, WriteFailsCleanly) {
  EXPECT_THROW(write_npy(folder / "none/a.npy", at::zeros({1})), Error);
  EXPECT_THROW(write_npy(folder / "a.npy", at::zeros({1}, at::kBFloat16)), Error);
  EXPECT_THROW(write_npz(folder / "a.npz", {{"x", at::zeros({1}, at::kComplexFloat)}}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(Npy, NpzRoundTrip) {
  const std::map<std::string, at::Tensor> arrays = {{"x", at::rand({5, 3})},
                                                    {"y", at::arange(4)},
                                                    {"none", at::empty({0, 2})},
                                                    {"scalar", at::full({}, 2.5)}};
  write_npz(folder / "a.npz", arrays);
  auto back = read_npz(folder / "a.npz");
  ASSERT_EQ(back.size(), arrays.size());
  for (const auto& [name, array] : arrays) {
    EXPECT_TRUE(back.at(name).equal(array)) << name;
    back.at(name).fill_(1);  // must be memory of its own, not the read-only mapping
  }
  write_npz(folder / "none.npz", {});
  EXPECT_TRUE(read_npz(folder / "none.npz").empty());
}

TEST_F(Npy, ReadsStoredAndDeflatedNpz) {
  std::string elements;
  for (int i = 0; i < 20000; ++i) elements += little(i / 7, 4);
  const std::string array = npy(dictionary("<i4", "(20000,)"), elements);
  for (const int method : {0, 8}) {
    write_file(folder / "a.npz", zip("data.npy", array, method));
    EXPECT_TRUE(read_npz(folder / "a.npz").at("data").equal(at::arange(20000, at::kInt).floor_divide(7)));
    write_file(folder / "b.npz", zip("readme.txt", "hello", method));
    EXPECT_TRUE(read_npz(folder / "b.npz").empty());
  }
}

TEST_F(Npy, ArraysThatNobodyReadMayBeOfAnyType) {
  const std::string names = npy(dictionary("<U3", "(2,)"), std::string(24, 'x'));
  write_file(folder / "a.npz", zip("names.npy", names, 0));
  const auto arrays = open_npz(folder / "a.npz");
  EXPECT_EQ(arrays.at("names").type(), "<U3");
  EXPECT_EQ(arrays.at("names").shape(), (std::vector<int64_t>{2}));
  EXPECT_THROW(arrays.at("names").read(), Error);
  EXPECT_THROW(arrays.at("names").bytes(), Error);
}

TEST_F(Npy, RefusesBrokenNpz) {
  const std::string array = npy(dictionary("<i4", "(3,)"), std::string(12, 'x'));
  expect_error("", "is empty", "a.npz");
  expect_error("PK", "too short", "a.npz");
  expect_error(array, "single .npy array", "a.npz");
  expect_error(std::string(100, 'x'), "no zip directory", "a.npz");
  expect_error(zip("data.npy", array, 0), "archive of arrays", "a.npy");
  for (const int method : {0, 8}) {
    const std::string good = zip("data.npy", array, method);
    for (size_t size = 1; size + 7 < good.size(); size += 5)
      expect_error(good.substr(0, size), "a.npz", "a.npz");
    expect_error(good.substr(30), "a.npz", "a.npz");  // its beginning is missing
    expect_error(zip("data.npy", array, method, 1), "checksum", "a.npz");
    std::string broken = good;
    broken[50] ^= 0x55;
    expect_error(broken, "data.npy", "a.npz");
  }
  const std::string twice = zip("data.npy", array, 0), end = twice.substr(twice.size() - 29);
  const size_t directory = twice.size() - 29 - (46 + 8);
  expect_error(twice.substr(0, directory) + twice.substr(directory, 54) + twice.substr(directory, 54) +
                   end.substr(0, 8) + little(2, 2) + little(2, 2) + end.substr(12),
               "occurs twice", "a.npz");
  expect_error(zip("data.npy", array, 12), "zip method 12", "a.npz");
  expect_error(zip("data.npy", "not an array, just text", 8), "is not a npy array", "a.npz");
}

}  // namespace
}  // namespace poem

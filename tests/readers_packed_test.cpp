#include "readers/packed.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "core/file.h"
#include "core/npy.h"
#include "encode_images.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

class Packed : public ::testing::Test {
 protected:
  void write_labelled(const std::string& name, const at::Tensor& pixels, const at::Tensor& labels) {
    write_npz(folder / name, {{"x", pixels}, {"y", labels}});
  }
  void expect_broken(const std::string& content, const std::vector<std::string>& words) {
    write_file(folder / "broken.poem", content);
    expect_error([&] { read_images(folder / "broken.poem"); }, words);
  }
  TemporaryFolder folder;
  at::Tensor images = random_bytes({7, 3, 5, 3}, 1);
  at::Tensor labels = at::tensor({0, 2, 1, 1, 0, 2, 2}, at::kLong);
};

TEST_F(Packed, RoundTripEqualsTheSource) {
  write_labelled("a.npz", images, labels);
  EXPECT_EQ(pack_images(folder / "a.npz", folder / "a.poem", {}), 7);
  const ImageSet set = read_images(folder / "a.poem");
  EXPECT_TRUE(set.pixels.equal(images));
  EXPECT_TRUE(set.labels.equal(labels));
  EXPECT_EQ(set.class_names, (std::vector<std::string>{"0", "1", "2"}));
  // And once more, from one packed file to another.
  EXPECT_EQ(pack_images(folder / "a.poem", folder / "b.poem", {}), 7);
  EXPECT_EQ(read_file(folder / "a.poem"), read_file(folder / "b.poem"));
}

TEST_F(Packed, HasTheDocumentedLayout) {
  write_labelled("a.npz", images, labels);
  pack_images(folder / "a.npz", folder / "a.poem", {});
  const std::string file = read_file(folder / "a.poem");
  const auto number = [&](size_t offset, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) value = value << 8 | static_cast<uint8_t>(file[offset + i]);
    return value;
  };
  EXPECT_EQ(file.substr(0, 8), "POEMPACK");
  EXPECT_EQ(number(8, 4), 3u);
  EXPECT_EQ(number(12, 4), 3u);
  EXPECT_EQ(number(16, 4), 5u);
  EXPECT_EQ(number(20, 4), 3u);
  EXPECT_EQ(number(24, 8), 7u);
  EXPECT_EQ(number(32, 8), 4096u + 320);  // 315 pixels, up to a multiple of 8
  EXPECT_EQ(number(40, 8), 4096u + 320 + 56);
  EXPECT_EQ(number(48, 8), 13u);
  EXPECT_EQ(file.substr(4096, 315), std::string(static_cast<const char*>(images.data_ptr()), 315));
  EXPECT_EQ(number(4096 + 320 + 8, 8), 2u);
  EXPECT_EQ(file.substr(4096 + 320 + 56, 13), R"(["0","1","2"])");
  EXPECT_EQ(number(56, 8), 0u);
  const size_t end = 4096 + 320 + 56 + 13;
  EXPECT_EQ(number(64, 8), end);
  EXPECT_EQ(number(72, 4), 1u << 20);
  const auto crc = [&](size_t first, size_t bytes) {
    return ::crc32(0, reinterpret_cast<const Bytef*>(file.data()) + first, static_cast<uInt>(bytes));
  };
  EXPECT_EQ(number(end, 4), crc(4096, end - 4096));  // all in one block
  EXPECT_EQ(number(76, 4), crc(end, 4));
  EXPECT_EQ(number(80, 4), crc(0, 80));
  EXPECT_EQ(file.size(), end + 4);
}

TEST_F(Packed, MapsWithoutACopyAndOutlivesItsFile) {
  write_npy(folder / "a.npy", images);
  pack_images(folder / "a.npy", folder / "a.poem", {});
  ImageSet set = read_images(folder / "a.poem");
  EXPECT_FALSE(set.labelled());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(set.pixels.data_ptr()) % 4096, 0u);
  // The mapping is shared with the file: a change of the file shows through, which a copy would not.
  FILE* file = fopen((folder / "a.poem").c_str(), "r+b");
  fseek(file, 4096, SEEK_SET);
  fputc(images.data_ptr<uint8_t>()[0] ^ 0xff, file);
  fclose(file);
  EXPECT_EQ(set.pixels.data_ptr<uint8_t>()[0], images.data_ptr<uint8_t>()[0] ^ 0xff);
  std::filesystem::remove(folder / "a.poem");
  const at::Tensor last = set.pixels[6];
  set = {};
  EXPECT_TRUE(last.equal(images[6]));
}

TEST_F(Packed, BringsImagesToTheSizeAskedFor) {
  const at::Tensor large = random_bytes({3, 3, 8, 8}, 2);
  write_npy(folder / "a.npy", large);
  ReadOptions half;
  half.size = 4;
  pack_images(folder / "a.npy", folder / "half.poem", half);
  pack_images(folder / "a.npy", folder / "whole.poem", {});
  const at::Tensor expected = read_images(folder / "a.npy", half).pixels;
  EXPECT_TRUE(read_images(folder / "half.poem").pixels.equal(expected));
  EXPECT_TRUE(read_images(folder / "whole.poem", half).pixels.equal(expected));
}

TEST_F(Packed, PacksManyBlocks) {
  const at::Tensor many = at::arange(40 << 20, at::kInt)
                              .remainder_(251)
                              .to(at::kByte)
                              .view({40, 1, 1024, 1024});  // more than two blocks of 16 MiB
  write_npy(folder / "a.npy", many);
  EXPECT_EQ(pack_images(folder / "a.npy", folder / "a.poem", {}), 40);
  EXPECT_TRUE(read_images(folder / "a.poem").pixels.equal(many));
  EXPECT_TRUE(read_images(folder / "a.npy").pixels.equal(many));
}

TEST_F(Packed, FailingLeavesNothingBehind) {
  for (int i = 0; i < 300; ++i)  // fails in the second block, when the first has been written
    folder.put("source/" + std::to_string(1000 + i) + ".png",
               i == 290 ? "broken" : encode_png(random_bytes({2, 2, 3}, i)));
  expect_error([&] { pack_images(folder / "source", folder / "a.poem", {}); },
               {"1290.png", "option skip_bad"});
  expect_error([&] { pack_images(folder / "missing", folder / "a.poem", {}); }, {"missing"});
  expect_error([&] { pack_images("world2d:train", folder / "a.poem", {}); }, {"points"});
  expect_error([&] { pack_images(folder / "source", folder / "a.bin", {}); }, {"a.bin", ".poem"});
  expect_error([&] { pack_images(folder / "source", folder / "none/a.poem", {}); }, {"none/a.poem"});
  int64_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(entry.path().filename(), "source");
    ++entries;
  }
  EXPECT_EQ(entries, 1);
  ReadOptions options;
  options.skip_bad = true;
  EXPECT_EQ(pack_images(folder / "source", folder / "a.poem", options), 299);
}

TEST_F(Packed, NeverMakesOneClassOfTwo) {
  const auto pack = [&](const char* name) {
    for (const char* one : {"cat", name})
      folder.put(fmt::format("photos/{}/1.png", one), encode_png(random_bytes({4, 4, 3}, 1)));
    pack_images(folder / "photos", folder / "photos.poem", {});
  };
  pack("caf\xe8");
  EXPECT_EQ(read_images(folder / "photos.poem").class_names, (std::vector<std::string>{"caf\uFFFD", "cat"}));
  expect_error([&] { pack("caf\xe9"); }, {"class names", "not UTF-8", "rename"});
}

TEST_F(Packed, AFailedPackKeepsTheOldFile) {
  write_npy(folder / "a.npy", images);
  pack_images(folder / "a.npy", folder / "a.poem", {});
  const std::string before = read_file(folder / "a.poem");
  EXPECT_THROW(pack_images(folder / "missing.npy", folder / "a.poem", {}), Error);
  EXPECT_EQ(read_file(folder / "a.poem"), before);
}

TEST_F(Packed, RefusesBrokenFiles) {
  write_labelled("a.npz", images, labels);
  pack_images(folder / "a.npz", folder / "a.poem", {});
  const std::string good = read_file(folder / "a.poem");
  expect_broken("", {"broken.poem", "is empty"});
  expect_broken("hello", {"broken.poem", "too short"});
  expect_broken(std::string(5000, 'x'), {"broken.poem", "not a packed file"});
  for (const size_t size : {size_t{4095}, size_t{4096}, size_t{4200}, good.size() - 20, good.size() - 1})
    expect_broken(good.substr(0, size), {"broken.poem", "pack the source again"});
  expect_broken(good + "x", {"broken.poem", "bytes"});
  const auto with = [&](size_t offset, uint8_t value) {
    std::string changed = good;
    changed[offset] = static_cast<char>(value);
    return changed;
  };
  expect_broken(with(8, 4), {"broken.poem", "version 4", "versions 1 to 3"});
  for (const size_t offset : {8, 12, 16, 20, 24, 31, 32, 40, 48, 55, 64, 72, 76, 80})
    expect_broken(with(offset, 0xfe), {"broken.poem"});
  expect_broken(with(4096 + 320, 3), {"broken.poem", "label 3"});
  expect_broken(with(good.size() - 5, 'x'), {"broken.poem", "class names"});
}

// Files that earlier versions of poem wrote: without checksums, and version 1 without names.
TEST_F(Packed, ReadsOlderVersions) {
  write_labelled("a.npz", images, labels);
  pack_images(folder / "a.npz", folder / "a.poem", {});
  std::string file = read_file(folder / "a.poem");
  file.resize(file.size() - 4);
  file.replace(64, 24, 24, '\0');
  for (const char version : {1, 2}) {
    file[8] = version;
    write_file(folder / "old.poem", file);
    const ImageSet set = read_images(folder / "old.poem");
    EXPECT_TRUE(set.pixels.equal(images));
    EXPECT_TRUE(set.labels.equal(labels));
    EXPECT_FALSE(check_packed(folder / "old.poem").has_checksums);
  }
  expect_broken(file + "x", {"bytes"});
}

}  // namespace
}  // namespace poem

// IDX, the format of MNIST, Fashion-MNIST and EMNIST.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "encode_images.h"
#include "expect_error.h"
#include "poem/read.h"
#include "temporary_folder.h"

namespace poem {
namespace {

std::string big_endian(uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(number >> shift & 255);
  return bytes;
}

std::string idx(const at::Tensor& values) {
  std::string bytes = big_endian(0x0800 + static_cast<uint32_t>(values.dim()));
  for (const int64_t length : values.sizes()) bytes += big_endian(static_cast<uint32_t>(length));
  return bytes + std::string(static_cast<const char*>(values.data_ptr()), values.nbytes());
}

class Idx : public ::testing::Test {
 protected:
  void put_gz(const std::string& name, const std::string& bytes) const {
    const gzFile file = gzopen((folder / name).c_str(), "wb");
    gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
    gzclose(file);
  }
  void expect_refused(const std::string& name, std::vector<std::string> words) const {
    words.push_back(name);
    expect_error([&] { read_images(folder / name); }, words);
  }
  TemporaryFolder folder;
  const at::Tensor images = random_bytes({7, 5, 4}, 1);
  const at::Tensor labels = at::tensor(std::vector<int>{2, 0, 9, 9, 1, 0, 3}, at::kByte);
};

// Labels are found by their names as MNIST writes them.
TEST_F(Idx, OtherNamesAreReadWithoutLabels) {
  for (const char* name : {"t10k-images-IDX3-ubyte", "t10k-images-idx3-UBYTE", "pictures-idx3-ubyte"}) {
    SCOPED_TRACE(name);
    folder.put(name, idx(images));
    const ImageSet set = read_images(folder / name);
    EXPECT_EQ(set.size(), 7);
    EXPECT_FALSE(set.labelled());
  }
}

// Plain or packed, each of the two by itself.
TEST_F(Idx, GreyBecomesRgbAndLabelsLieBeside) {
  for (const char* name : {"train-images-idx3-ubyte", "t10k-images-idx3-ubyte.gz", "a-images.idx3-ubyte"}) {
    for (const bool packed : {false, true}) {
      SCOPED_TRACE(name);
      const bool gz = std::string(name).find(".gz") != std::string::npos;
      gz ? put_gz(name, idx(images)) : folder.put(name, idx(images));
      std::string beside = std::string(name).substr(0, std::string(name).find("images"));
      beside += std::string(name).find('.') == 8 ? "labels.idx1-ubyte" : "labels-idx1-ubyte";
      packed ? put_gz(beside + ".gz", idx(labels)) : folder.put(beside, idx(labels));
      const ImageSet set = read_images(folder / name);
      EXPECT_TRUE(set.pixels.equal(images.unsqueeze(1).expand({7, 3, 5, 4})));
      ASSERT_TRUE(set.labelled());
      EXPECT_TRUE(set.labels.equal(labels.to(at::kLong)));
      EXPECT_EQ(set.class_names,
                (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}));
      std::filesystem::remove(folder / beside);
      std::filesystem::remove(folder / (beside + ".gz"));
      EXPECT_FALSE(read_images(folder / name).labelled());
    }
  }
  EXPECT_EQ(read_images(folder / "train-images-idx3-ubyte#count=3", {8}).pixels.sizes(),
            at::IntArrayRef({3, 3, 8, 8}));
}

TEST_F(Idx, DamagedFilesAreRefused) {
  const std::string good = idx(images), name = "train-images-idx3-ubyte";
  for (size_t size = 0; size < good.size(); ++size) {
    folder.put(name, good.substr(0, size));
    expect_refused(name, {"download it again"});
  }
  folder.put(name, good + "x");
  expect_refused(name, {"longer than its header"});
  folder.put(name, idx(labels));
  expect_refused(name, {"not an IDX file of images"});
  folder.put(name, std::string("\x00\x00\x0d\x03", 4) + good.substr(4));  // floats
  expect_refused(name, {"not an IDX file"});
  folder.put(name, big_endian(0x0803) + big_endian(1) + big_endian(1u << 31) + big_endian(1u << 31));
  expect_refused(name, {"claims images of 2147483648×2147483648 pixels"});
  folder.put(name, big_endian(0x0803) + big_endian(~0u) + big_endian(28) + big_endian(28));
  expect_refused(name, {"cut short"});
  folder.put(name, idx(at::empty({0, 28, 28}, at::kByte)));
  expect_refused(name, {"contains no images"});
}

TEST_F(Idx, DamagedGzipIsRefused) {
  const std::string name = "t10k-images-idx3-ubyte.gz";
  put_gz(name, idx(images));
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(folder / name));
  for (int64_t cut = 1; cut < bytes; cut += 7) {  // also within the checksum at the end
    put_gz(name, idx(images));
    std::filesystem::resize_file(folder / name, static_cast<uint64_t>(bytes - cut));
    expect_refused(name, {"download it again"});
  }
}

TEST_F(Idx, LabelsOfOtherImagesAreRefused) {
  folder.put("train-images-idx3-ubyte", idx(images));
  folder.put("train-labels-idx1-ubyte", idx(labels.narrow(0, 0, 6)));
  expect_error([&] { read_images(folder / "train-images-idx3-ubyte"); },
               {"train-labels-idx1-ubyte", "has 6 labels", "has 7 images"});
  folder.put("train-labels-idx1-ubyte", idx(images));
  expect_error([&] { read_images(folder / "train-images-idx3-ubyte"); },
               {"train-labels-idx1-ubyte", "not an IDX file of labels"});
}

}  // namespace
}  // namespace poem

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "core/file.h"
#include "encode_images.h"
#include "expect_error.h"
#include "poem/read.h"
#include "temporary_folder.h"

namespace poem {
namespace {

// Records of the binary version: the label bytes, then the planes.
std::string records(const at::Tensor& images, const std::vector<std::string>& labels) {
  std::string bytes;
  for (int64_t i = 0; i < images.size(0); ++i) {
    bytes += labels[i];
    bytes.append(static_cast<const char*>(images[i].data_ptr()), 3072);
  }
  return bytes;
}

class Cifar : public ::testing::Test {
 protected:
  TemporaryFolder folder;
  at::Tensor images = random_bytes({4, 3, 32, 32}, 1);
};

TEST_F(Cifar, TenReadsAFileExactly) {
  write_file(folder / "test_batch.bin", records(images, {"\x03", std::string(1, '\0'), "\x09", "\x03"}));
  const ImageSet set = read_images(folder / "test_batch.bin");
  EXPECT_TRUE(set.pixels.equal(images));
  EXPECT_TRUE(set.labels.equal(at::tensor({3, 0, 9, 3}, at::kLong)));
  ASSERT_EQ(set.class_names.size(), 10u);
  EXPECT_EQ(set.class_names[9], "9");
  EXPECT_EQ(set.name, folder / "test_batch.bin");
}

TEST_F(Cifar, TenFolderIsItsTrainingBatchesInOrder) {
  const at::Tensor two = random_bytes({1, 3, 32, 32}, 2), ten = random_bytes({1, 3, 32, 32}, 3);
  write_file(folder / "data_batch_10.bin", records(ten, {"\x07"}));
  write_file(folder / "data_batch_2.bin", records(two, {"\x05"}));
  write_file(folder / "test_batch.bin", records(images, {"\1", "\1", "\1", "\1"}));
  write_file(folder / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n");
  const ImageSet set = read_images(folder.path());
  EXPECT_TRUE(set.pixels.equal(at::cat({two, ten})));
  EXPECT_TRUE(set.labels.equal(at::tensor({5, 7}, at::kLong)));
  EXPECT_EQ(set.class_names[5], "f");
}

TEST_F(Cifar, HundredUsesFineLabels) {
  const std::string zero(1, '\0');
  const std::string content = records(images, {"\x13\x63", "\x01" + zero, zero + "\x02", "\x02\x02"});
  write_file(folder / "train.bin", content);
  write_file(folder / "renamed.bin", content);  // told by its size
  for (const std::string& path : {folder.path(), folder / "train.bin", folder / "renamed.bin"}) {
    const ImageSet set = read_images(path);
    EXPECT_TRUE(set.pixels.equal(images));
    EXPECT_TRUE(set.labels.equal(at::tensor({99, 0, 2, 2}, at::kLong)));
    EXPECT_EQ(set.class_names.size(), 100u);
  }
}

TEST_F(Cifar, RefusesWhatDoesNotFit) {
  const std::string good = records(images, {"\1", "\1", "\1", "\1"});
  const auto read = [&](const std::string& name, const std::string& content) {
    write_file(folder / name, content);
    return [path = folder / name] { read_images(path); };
  };
  expect_error(read("test_batch.bin", ""), {"test_batch.bin", "is empty"});
  expect_error(read("test_batch.bin", good.substr(1)),
               {"test_batch.bin", "has 12291 bytes", "3073", "CIFAR-10"});
  expect_error(read("test.bin", good), {"test.bin", "3074", "CIFAR-100"});  // records of the other kind
  expect_error(read("test_batch.bin", records(images, {"\1", "\1", "\x0a", "\1"})),
               {"test_batch.bin", "image 2 has label 10", "0 to 9"});
  expect_error(read("train.bin", records(images, {"\1\1", "\1\x64", "\1\1", "\1\1"})),
               {"train.bin", "image 1 has label 100", "0 to 99"});
  write_file(folder / "batches.meta.txt", "a\nb\n");
  expect_error(read("test_batch.bin", good), {"batches.meta.txt", "2 class names", "10"});
}

}  // namespace
}  // namespace poem

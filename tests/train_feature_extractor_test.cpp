#include "train/feature_extractor.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace poem {
namespace {

constexpr int64_t kSide = 2;

std::shared_ptr<Network> small_network() {
  NetworkSpec spec;
  spec.name = "mlp";
  spec.pixels = kSide * kSide;
  spec.hidden = {3};
  return make_network(spec, 1);
}

struct Block {
  int64_t first;
  at::Tensor features;
};

std::vector<Block> blocks_of(Network& network, const ImageSet& images, int64_t count) {
  std::vector<Crop> crops(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) crops[static_cast<size_t>(i)] = {i, 0};
  const DeviceImages device(images, at::kCPU);
  const FeatureExtractor extract(network, at::kCPU, kSide, /*bf16=*/false);
  std::vector<Block> blocks;
  extract(device, crops, plain(kSide), [&](int64_t first, const at::Tensor& features) {
    blocks.push_back({first, features});
  });
  return blocks;
}

ImageSet random_images(int64_t count) {
  return {"random", at::randint(256, {count, 3, kSide, kSide}, at::kByte), {}, {}};
}

TEST(FeatureExtractor, VisitsEachCropOnceInOrder) {
  constexpr int64_t kCount = 2 * FeatureExtractor::kBlock + 5;
  at::manual_seed(1);
  const auto network = small_network();
  const ImageSet images = random_images(kCount);
  int64_t next = 0;
  std::vector<at::Tensor> parts;
  for (const Block& block : blocks_of(*network, images, kCount)) {
    EXPECT_EQ(block.first, next);
    next += block.features.size(0);
    parts.push_back(block.features);
  }
  ASSERT_EQ(next, kCount);
  const at::NoGradGuard no_grad;
  network->train(false);
  const at::Tensor expected = network->features(images.pixels);  // all at once
  EXPECT_LT((at::cat(parts) - expected).abs().max().item<double>(), 1e-5);
}

// The network waits for the first block to be read, and for none after it: while it works on one block, as
// many images are read as it has seen so far.
TEST(FeatureExtractor, BeginsWithShortBlocks) {
  constexpr int64_t kCount = 4 * FeatureExtractor::kBlock;
  const auto network = small_network();
  const std::vector<Block> blocks = blocks_of(*network, random_images(kCount), kCount);
  EXPECT_LE(blocks[0].features.size(0), FeatureExtractor::kBlock / 10);
  int64_t longest = 0;
  for (size_t i = 1; i < blocks.size(); ++i) {
    EXPECT_LE(blocks[i].features.size(0), blocks[i].first);
    longest = std::max(longest, blocks[i].features.size(0));
  }
  EXPECT_EQ(longest, FeatureExtractor::kBlock);
}

TEST(FeatureExtractor, VisitsNothingWhereThereIsNoCrop) {
  EXPECT_TRUE(blocks_of(*small_network(), random_images(1), 0).empty());
}

}  // namespace
}  // namespace poem

#include "train/feature_extractor.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <future>
#include <optional>
#include <utility>

#include "core/progress.h"
#include "train/gpu_memory.h"

namespace poem {
namespace {

// Means over 2×2 pixels.
at::Tensor halved(const at::Tensor& images) {
  return at::avg_pool2d(images.to(at::kFloat, false, false, at::MemoryFormat::ChannelsLast), 2);
}

}  // namespace

FeatureExtractor::FeatureExtractor(Network& network, at::Device device, int64_t size, bool bf16,
                                   void (*before_images)())
    : network_(network),
      images_at_a_time_(images_per_block(size, device)),
      bf16_(bf16),
      before_images_(before_images) {}

void FeatureExtractor::operator()(const DeviceImages& images, const std::vector<Crop>& crops,
                                  const Augmentation& augmentation, const FeatureVisit& visit,
                                  const std::string& what, Scale scale) const {
  const at::NoGradGuard no_grad;
  const auto size = static_cast<int64_t>(crops.size());
  std::optional<Progress> bar;
  if (!what.empty()) bar.emplace(what, size, "images");
  // While the network works on a block, a thread lets go of the one before and reads the next one from the
  // disk. Nothing is done while the first one is read, so it is short, and every other one is as long as all
  // before it.
  static constexpr int64_t kFirst = 2000;
  const auto count_at = [size](int64_t first) {
    return std::min(std::clamp(first, kFirst, kBlock), size - first);
  };
  const auto move_on = [&](int64_t done, int64_t first, int64_t next) {
    return std::async(std::launch::async, [&, done, first, next] {
      images.let_go(crops.data() + done, first - done);
      images.read_ahead(crops.data() + next, count_at(next));
    });
  };
  std::future<void> ahead = move_on(0, 0, 0);
  int64_t done = 0, first = 0;
  while (first < size) {
    const int64_t count = count_at(first), next = first + count;
    ahead.get();
    ahead = move_on(done, first, next);
    visit(first, block(images, &crops[first], count, augmentation, scale));
    done = std::exchange(first, next);
    if (bar) bar->advance(count);
  }
  ahead.get();
  images.let_go(crops.data() + done, size - done);
}

// As many images at a time as the device has memory for.
at::Tensor FeatureExtractor::block(const DeviceImages& images, const Crop* crops, int64_t count,
                                   const Augmentation& augmentation, Scale scale) const {
  const Bf16Scope precision(network_, bf16_);
  network_.train(false);
  std::vector<at::Tensor> parts;
  for (int64_t first = 0; first < count; first += images_at_a_time_) {
    before_images_();
    const int64_t part = std::min(images_at_a_time_, count - first);
    const at::Tensor cut = images.cut(crops + first, part, augmentation);
    parts.push_back(network_.features(scale == Scale::kHalf ? halved(cut) : cut));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts);
}

}  // namespace poem

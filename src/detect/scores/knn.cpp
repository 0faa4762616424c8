// KNN (Sun et al. 2022): −distance to the k-th nearest training feature, all of them brought to length 1. The
// matrix of distances exists in blocks only. It is computed where the network is.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "detect/nearest.h"
#include "detect/normalise.h"
#include "poem/network.h"
#include "poem/scores.h"

namespace poem {
namespace {

constexpr size_t kNeighbours = 50;
constexpr int64_t kBlock = 4096;  // training features compared with at a time

// The k smallest of a stream of numbers, in a buffer with room for some more.
class Smallest {
 public:
  explicit Smallest(size_t k) : k_(k) {}

  void offer(const float* values, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      if (!(values[i] < limit_)) continue;
      kept_.push_back(values[i]);
      if (kept_.size() == kRoom * k_) shrink();
    }
  }

  // The k-th; NaN if fewer numbers were offered.
  float last() {
    if (kept_.size() < k_) return std::numeric_limits<float>::quiet_NaN();
    shrink();
    return limit_;
  }

 private:
  static constexpr size_t kRoom = 4;

  void shrink() {
    const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
    std::nth_element(kept_.begin(), last, kept_.end());
    limit_ = *last;
    kept_.resize(k_);
  }

  size_t k_;
  float limit_ = std::numeric_limits<float>::infinity();
  std::vector<float> kept_;
};

class Knn : public Score {
 public:
  void fit(const Training& training) override {
    known_ = normalised(training.features);
    there_.reset();
  }

  at::Tensor operator()(const Batch& batch) const override {
    const at::Tensor query = normalised(batch.features);
    const size_t k = std::clamp<size_t>(known_.size(0), 1, kNeighbours);
    if (const at::Device device = device_of(batch); !device.is_cpu()) return on_device(query, k, device);
    std::vector<Smallest> nearest(query.size(0), Smallest(k));
    for (const at::Tensor& block : known_.split(kBlock)) {
      // ‖a − b‖² = ‖a‖² + ‖b‖² − 2ab, without ‖a‖², which does not change the order.
      const at::Tensor apart = at::addmm(block.square().sum(1), query, block.t(), 1, -2);
      const float* values = apart.data_ptr<float>();
      const int64_t width = apart.size(1);
      at::parallel_for(0, query.size(0), 16, [&](int64_t first, int64_t end) {
        for (int64_t i = first; i < end; ++i) nearest[i].offer(values + i * width, width);
      });
    }
    at::Tensor scores = query.square().sum(1);
    float* score = scores.data_ptr<float>();
    for (size_t i = 0; i < nearest.size(); ++i) {
      const float square = score[i] + nearest[i].last();
      score[i] = -std::sqrt(square < 0 ? 0 : square);  // NaN must stay NaN
    }
    return scores;
  }

  // The same with the whole matrix of distances.
  at::Tensor formula(const Batch& batch) const override {
    const at::Tensor query = normalised(batch.features);
    const int64_t k = std::clamp<int64_t>(known_.size(0), 1, kNeighbours);
    const at::Tensor apart = at::addmm(known_.square().sum(1), query, known_.t(), 1, -2);
    const at::Tensor nearest = std::get<0>(apart.topk(k, 1, /*largest=*/false)).narrow(1, k - 1, 1);
    return -(query.square().sum(1) + nearest.squeeze(1)).clamp_min(0).sqrt();
  }

 private:
  static at::Device device_of(const Batch& batch) {
    return batch.network == nullptr ? at::kCPU : batch.network->parameters().front().second.device();
  }

  at::Tensor on_device(const at::Tensor& query, size_t k, at::Device device) const {
    if (!there_.defined() || there_.device() != device) there_ = known_.to(device);
    return -kth_nearest_square(query.to(device), there_, static_cast<int64_t>(k)).sqrt().cpu();
  }

  State state() override { return {{"features", &known_}}; }

  at::Tensor known_;          // N×m, of length 1
  mutable at::Tensor there_;  // the same on the network's device, once it was needed there
};

}  // namespace

std::unique_ptr<Score> make_knn() { return std::make_unique<Knn>(); }

}  // namespace poem

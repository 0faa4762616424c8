// The distance to the centre: −‖h − μ‖, where μ is the mean of the training features.
#include <ATen/ATen.h>

#include "poem/scores.h"

namespace poem {
namespace {

class Centre : public Score {
 public:
  void fit(const Training& training) override { mean_ = training.features.mean(0); }

  at::Tensor operator()(const Batch& batch) const override { return -(batch.features - mean_).norm(2, 1); }

 private:
  State state() override { return {{"mean", &mean_}}; }  // saved with the detector

  at::Tensor mean_;
};

}  // namespace

std::unique_ptr<Score> make_centre() { return std::make_unique<Centre>(); }

}  // namespace poem

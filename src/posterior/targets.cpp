#include "poem/targets.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>

#include "poem/error.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr const char* kStream = "target-noise";

// ID rows have even numbers, outlier rows odd ones, so that the two sides never share a draw.
Stream row_stream(uint64_t seed, int64_t epoch, Side side, int64_t row) {
  return {seed, kStream, static_cast<uint64_t>(epoch),
          2 * static_cast<uint64_t>(row) + (side == Side::kOutlier)};
}

void check(const PosteriorSettings& settings) {
  if (!std::isfinite(settings.target)) {
    throw Error("posterior.target", fmt::format("{} is not finite", settings.target), "3 is usual");
  }
  if (!(settings.noise_variance >= 0 && std::isfinite(settings.noise_variance))) {
    throw Error("posterior.noise_variance", fmt::format("{} is not 0 or more", settings.noise_variance),
                "0.5 is usual");
  }
}

}  // namespace

at::Tensor target_logits(const PosteriorSettings& settings, uint64_t seed, int64_t epoch, Side side,
                         int64_t first, int64_t count, int64_t weight) {
  check(settings);
  const double deviation = std::sqrt(settings.noise_variance);
  const double copies = static_cast<double>(weight);
  const double centre = copies * (side == Side::kId ? -settings.target : settings.target);
  if (settings.target_noise == TargetNoise::kSingle) {
    return at::full({count}, centre + copies * deviation * Stream(seed, kStream).normal(), at::kDouble);
  }
  at::Tensor targets = at::empty({count}, at::kDouble);
  double* y = targets.data_ptr<double>();
  at::parallel_for(0, count, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      Stream stream = row_stream(seed, epoch, side, first + row);
      double noise = 0;
      for (int64_t k = 0; k < weight; ++k) noise += stream.normal();
      y[row] = centre + deviation * noise;
    }
  });
  return targets;
}

}  // namespace poem

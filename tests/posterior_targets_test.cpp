#include "poem/targets.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "expect_error.h"

namespace poem {
namespace {

PosteriorSettings with(double target, double noise_variance, TargetNoise noise = TargetNoise::kIid) {
  PosteriorSettings settings;
  settings.target = target;
  settings.noise_variance = noise_variance;
  settings.target_noise = noise;
  return settings;
}

const PosteriorSettings kIid = with(3, 0.5), kSingle = with(3, 0.5, TargetNoise::kSingle);

TEST(TargetLogits, IidNoiseHasItsMoments) {
  constexpr int64_t kCount = 100000;
  for (int64_t weight : {1, 4}) {
    const auto w = static_cast<double>(weight);
    const at::Tensor y = target_logits(kIid, 1, 0, Side::kId, 0, kCount, weight);
    EXPECT_NEAR(y.mean().item<double>(), -3 * w, 5 * std::sqrt(0.5 * w / kCount));
    EXPECT_NEAR(y.var().item<double>(), 0.5 * w, 5 * 0.5 * w * std::sqrt(2.0 / kCount));
  }
}

TEST(TargetLogits, DoNotDependOnHowRowsAreSplit) {
  const at::Tensor whole = target_logits(kIid, 1, 2, Side::kOutlier, 0, 5000);
  const at::Tensor part = target_logits(kIid, 1, 2, Side::kOutlier, 3000, 10);
  EXPECT_TRUE(whole.narrow(0, 3000, 10).equal(part));
}

TEST(TargetLogits, SeedEpochSideAndRowEachChangeTheNoise) {
  const double base = target_logits(kIid, 1, 2, Side::kId, 3, 1).item<double>() + 3;
  EXPECT_NE(base, target_logits(kIid, 2, 2, Side::kId, 3, 1).item<double>() + 3);
  EXPECT_NE(base, target_logits(kIid, 1, 3, Side::kId, 3, 1).item<double>() + 3);
  EXPECT_NE(base, target_logits(kIid, 1, 2, Side::kId, 4, 1).item<double>() + 3);
  EXPECT_NE(base, target_logits(kIid, 1, 2, Side::kOutlier, 3, 1).item<double>() - 3);
}

TEST(TargetLogits, SingleNoiseIsOneNumberForEver) {
  const at::Tensor id = target_logits(kSingle, 1, 0, Side::kId, 0, 10);
  const double noise = id[0].item<double>() + 3;
  EXPECT_NE(noise, 0);
  EXPECT_TRUE(id.equal(at::full_like(id, -3 + noise)));
  EXPECT_DOUBLE_EQ(target_logits(kSingle, 1, 9, Side::kOutlier, 7, 1).item<double>(), 3 + noise);
  EXPECT_DOUBLE_EQ(target_logits(kSingle, 1, 9, Side::kId, 7, 1, 4).item<double>(), 4 * (-3 + noise));
  EXPECT_NE(target_logits(kSingle, 2, 0, Side::kId, 0, 1).item<double>() + 3, noise);
}

TEST(TargetLogits, WithoutNoiseTheyAreTheTargets) {
  const at::Tensor y = target_logits(with(2, 0), 1, 0, Side::kOutlier, 0, 3, 2);
  EXPECT_TRUE(y.equal(at::full({3}, 4.0, at::kDouble)));
}

TEST(TargetLogits, SettingsOutOfRangeAreNamed) {
  expect_error([] { target_logits(with(3, -1), 1, 0, Side::kId, 0, 1); }, {"posterior.noise_variance", "-1"});
  expect_error([] { target_logits(with(std::nan(""), 1), 1, 0, Side::kId, 0, 1); },
               {"posterior.target", "nan"});
}

}  // namespace
}  // namespace poem

// Target logits of the regression: −t for ID, +t for outliers, plus noise N(0, σ²).
//
//   at::Tensor y = target_logits(settings, seed, epoch, Side::kOutlier, 0, rows);
//
// Noise is a function of seed, epoch, side and row alone: a resumed or distributed run draws the same.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace poem {

enum class TargetNoise {
  kIid,    // each target its own draw
  kSingle  // one number drawn from the seed, added to every target for ever (the authors' code)
};

struct TargetSettings {
  double target = 3;            // probability 0.95 of the right side
  double noise_variance = 0.5;  // σ²; 0 gives targets without noise
  TargetNoise noise = TargetNoise::kIid;
};

enum class Side { kId, kOutlier };

// Targets of rows first … first + count − 1 of one side in one epoch, float64. With weight k each is the sum
// of the k targets that k copies of the row would have: k · ±t and k draws.
at::Tensor target_logits(const TargetSettings& settings, uint64_t seed, int64_t epoch, Side side,
                         int64_t first, int64_t count, int64_t weight = 1);

}  // namespace poem

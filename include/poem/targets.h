// Target logits of the posterior's regression: −t for ID and +t for outliers, plus noise N(0, σ²).
//
//   at::Tensor y = target_logits(settings, seed, epoch, Side::kOutlier, 0, rows);
//
// The noise depends only on seed, epoch, side and row, so a resumed run draws the same.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "poem/posterior.h"

namespace poem {

enum class Side { kId, kOutlier };

// Targets of rows first … first + count − 1 of one side in one epoch, float64. With weight k, each is the sum
// of the targets of k copies of the row: k · ±t and k draws.
at::Tensor target_logits(const PosteriorSettings& settings, uint64_t seed, int64_t epoch, Side side,
                         int64_t first, int64_t count, int64_t weight = 1);

}  // namespace poem

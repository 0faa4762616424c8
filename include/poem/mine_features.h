// Chooses outliers from features of any network: posterior, draw and selection, as `poem mine` does it.
//
//   const at::Tensor id = read_features("id.npy"), outliers = …, pool = …;
//   MinedFeatures mined = mine_features(id, outliers, pool, 50000, seed, settings);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "poem/posterior.h"

namespace poem {

// An n×m array of floats from an .npy file, or the array `features` of an .npz file. `width` is the required
// m; 0 means any. Another shape or type, no rows, or a value that is not finite is an Error.
at::Tensor read_features(const std::string& path, int64_t width = 0);

struct MinedFeatures {
  Posterior posterior;
  at::Tensor weights;           // the draw w, m float64
  at::Tensor logits;            // wᵀφ of the pool, float32; its sigmoid is p(outlier)
  std::vector<int64_t> chosen;  // pool rows by descending boundary score −|wᵀφ|, ties by the smaller row
};

// All arrays are n×m floats with the same m; 0 < select ≤ rows of the pool. A value that is not finite is an
// Error that names array, row and feature.
MinedFeatures mine_features(const at::Tensor& id, const at::Tensor& outliers, const at::Tensor& pool,
                            int64_t select, uint64_t seed, const PosteriorSettings& settings);

}  // namespace poem

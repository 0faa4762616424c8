#include "poem/mine_features.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/array_file.h"
#include "core/finite.h"
#include "core/npy.h"
#include "mining/top_n.h"
#include "poem/error.h"
#include "poem/targets.h"

namespace poem {
namespace {

constexpr int64_t kBlock = 4096;  // rows per block

void check_sizes(const at::Tensor& id, const at::Tensor& outliers, const at::Tensor& pool, int64_t select) {
  if (id.size(1) != outliers.size(1) || id.size(1) != pool.size(1)) {
    throw Error("features",
                fmt::format("ID rows have {}, outliers {} and the pool {} features", id.size(1),
                            outliers.size(1), pool.size(1)),
                "use features of the same network for all three");
  }
  if (select < 1 || select > pool.size(0)) {
    throw Error("selection", fmt::format("cannot select {} rows from a pool of {}", select, pool.size(0)),
                fmt::format("choose 1 to {}, or give a larger pool", pool.size(0)));
  }
}

at::Tensor logits_of(const at::Tensor& features, const at::Tensor& weights) {
  at::Tensor logits = at::empty({features.size(0)}, at::kFloat);
  for (int64_t first = 0; first < features.size(0); first += kBlock) {
    const int64_t rows = std::min(kBlock, features.size(0) - first);
    const at::Tensor block = features.narrow(0, first, rows).to(at::kDouble);
    logits.narrow(0, first, rows).copy_(block.mv(weights));
  }
  return logits;
}

// One number per row instead of a look at every feature: what is not finite in a row shows in its logit.
void check_logits(const at::Tensor& logits, const at::Tensor& pool) {
  if (at::isfinite(logits).all().item<bool>()) return;
  check_finite("pool", pool, "remove the row or correct its source");
  throw Error("pool", "has features whose products with the weights exceed float32", "rescale the features");
}

// Adds the rows of one side; an Error names the side.
void add_side(Statistics& statistics, const char* name, const at::Tensor& features,
              const at::Tensor& targets) {
  try {
    statistics.add(features, targets);
  } catch (const Error& e) {
    throw e.within(name);
  }
}

std::vector<int64_t> nearest_the_boundary(const at::Tensor& logits, int64_t select) {
  const at::Tensor boundary = -logits.abs();
  const float* scores = boundary.data_ptr<float>();
  TopN best(select);
  best.offer(scores, boundary.numel(), 0);
  std::vector<int64_t> chosen = best.take();
  std::stable_sort(chosen.begin(), chosen.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  return chosen;
}

}  // namespace

// The header tells what does not fit, before the rows are read.
at::Tensor read_features(const std::string& path, int64_t width) {
  const StoredArray array = open_array(path, "features");
  const std::vector<int64_t>& shape = array.shape();
  if (shape.size() != 2 || array.type().rfind("float", 0) != 0) {
    throw Error(path, fmt::format("has {} dimensions of {}", shape.size(), array.type()),
                "save rows × features as floats");
  }
  if (shape[0] == 0 || shape[1] == 0) {
    throw Error(path, fmt::format("has {} rows of {} features", shape[0], shape[1]), "give at least one row");
  }
  if (width > 0 && shape[1] != width) {
    throw Error(path, fmt::format("has {} features per row, expected {}", shape[1], width),
                "use features of the same network in all files");
  }
  const at::Tensor features = array.read();
  check_finite(path, features, "remove the row or correct its source");
  return features;
}

MinedFeatures mine_features(const at::Tensor& id, const at::Tensor& outliers, const at::Tensor& pool,
                            int64_t select, uint64_t seed, const PosteriorSettings& settings) {
  check_sizes(id, outliers, pool, select);
  Statistics statistics(id.size(1));
  add_side(statistics, "id", id, target_logits(settings, seed, 0, Side::kId, 0, id.size(0)));
  add_side(statistics, "outliers", outliers,
           target_logits(settings, seed, 0, Side::kOutlier, 0, outliers.size(0)));
  const Posterior posterior(statistics, settings);
  Stream stream(seed, "weights");
  const at::Tensor weights = posterior.draw(stream);
  const at::Tensor logits = logits_of(pool, weights);
  check_logits(logits, pool);
  return {posterior, weights, logits, nearest_the_boundary(logits, select)};
}

}  // namespace poem

// The embedded image world: 32×32 RGB images drawn from a seed, nothing on disk. And the paper's
// two-dimensional world. Frozen: a change of what is drawn must raise kWorldVersion.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "data/image_set.h"

namespace poem {

constexpr int kWorldVersion = 1;

// Sets: "train", "test" (eight labelled classes), "outliers" (the broad auxiliary pool, labelled with the
// family drawn), and without labels the OOD test families that the pool does not contain: "digits",
// "textures", "scenes", "cropped", "resized", "patches". Image i of a set is a function of (seed, set, i)
// alone, so a smaller count is a prefix of a larger one.
ImageSet draw_world(const std::string& set, int64_t count, uint64_t seed);
std::vector<std::string> world_sets();

// Sets: "train", "test" (three Gaussian classes), "outliers" (uniform, at least two standard deviations from
// every class mean), "ood" (the same law, other draws). float32 N×2×1×1.
ImageSet draw_world_2d(const std::string& set, int64_t count, uint64_t seed);
double world_2d_density(double x, double y);  // of the law of "train" and "test"

}  // namespace poem

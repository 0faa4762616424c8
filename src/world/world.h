// The embedded image world: 32×32 RGB images that are drawn from a seed and need no files. Also the paper's
// two-dimensional world. A change of what is drawn must raise kWorldVersion.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "poem/images.h"

namespace poem {

constexpr int kWorldVersion = 1;

// Sets: "train" and "test" (eight labelled classes), "outliers" (many families, labelled with the
// family drawn), and the OOD test families "digits", "textures", "scenes", "cropped", "resized" and "patches"
// (without labels; the pool contains none of them). Image i of a set depends only on (seed, set, i), so a
// smaller set is the beginning of a larger one.
ImageSet draw_world(const std::string& set, int64_t count, uint64_t seed);
std::vector<std::string> world_sets();

// Sets: "train" and "test" (three Gaussian classes), "outliers" (uniform, at least two standard deviations
// from every class mean), "ood" (the same law, other draws). float32 N×2×1×1.
ImageSet draw_world_2d(const std::string& set, int64_t count, uint64_t seed);
double world_2d_density(double x, double y);  // of the law of "train" and "test"

}  // namespace poem

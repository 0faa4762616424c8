// The embedded image world: 32×32 RGB images that are drawn from a seed and need no files. Also the paper's
// two-dimensional world. A change of what is drawn must raise kWorldVersion.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "poem/images.h"

namespace poem {

constexpr int kWorldVersion = 1;

namespace world {
struct Family;
}

// The images of one set, one by one. draw_world() below lists the sets.
//
//   const WorldImages outliers("outliers", 1000000, /*seed=*/0);
//   const int64_t label = outliers.draw(999999, pixels);
class WorldImages {
 public:
  WorldImages(const std::string& set, int64_t count, uint64_t seed);  // unknown set, bad count: an Error

  const std::string& name() const { return name_; }  // "world:outliers"
  int64_t size() const { return count_; }
  std::vector<std::string> class_names() const;  // empty: the images have no labels

  // Writes image `index` as 3×32×32 bytes. Returns its label; −1 if the images have no labels.
  int64_t draw(int64_t index, uint8_t* pixels) const;

 private:
  std::string name_;
  const world::Family* family_;
  int64_t count_;
  uint64_t seed_;
};

// Sets: "train" and "test" (eight labelled classes), "outliers" and "procedural" (many families, labelled
// with the family drawn; the second shows no whole objects), and the OOD test families "digits", "textures",
// "scenes", "cropped", "resized" and "patches" (without labels; the pool contains none of them). Image i of a
// set depends only on (seed, set, i), so a smaller set is the beginning of a larger one.
ImageSet draw_world(const std::string& set, int64_t count, uint64_t seed);
std::vector<std::string> world_sets();

// Sets: "train" and "test" (three Gaussian classes), "outliers" (uniform, at least two standard deviations
// from every class mean), "ood" (the same law, other draws). float32 N×2×1×1.
ImageSet draw_world_2d(const std::string& set, int64_t count, uint64_t seed);
double world_2d_density(double x, double y);  // of the law of "train" and "test"

}  // namespace poem

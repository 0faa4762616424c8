// Cuts batches out of image sets: random crop with padding, flip, colour jitter and resize, on whole uint8
// batches. A 64-bit seed decides everything that is random about a crop, so a crop takes 16 bytes and can be
// cut again at any time. Mined outliers, the queue and checkpoints refer to images in this way.
//
//   const std::vector<Crop> crops = {{/*image=*/7, /*seed=*/1}, {7, 2}};   // two views of one image
//   at::Tensor batch = cut(images, crops.data(), crops.size(), augmentation);
#pragma once
#include <cstdint>
#include <vector>

#include "poem/images.h"

namespace poem {

struct Crop {  // one view of one image
  int64_t image;
  uint64_t seed;
};

// How an image is made smaller (src/images/filters.h).
enum class Filter { kArea, kTriangle, kBicubic, kLanczos, kGaussian, kNearest, kPiece };

struct Augmentation {
  int64_t size = 32;        // side of what is cut
  int64_t padding = 4;      // zeros around the image before the random crop
  bool random_crop = true;  // false: the centre
  bool flip = true;         // mirror left-right with probability 1/2
  // true: an image with a side above `size` is first shrunk to size×size, each axis by its own factor, so an
  // image that is not square is squeezed. false: crop from the original. (read_images() with
  // ReadOptions::size never squeezes: it resizes the shorter side and cuts out the centre. Images that were
  // read at this size are not resized again.)
  bool resize = false;
  // How: each crop draws one of these. kGaussian also blurs images that are not shrunk.
  std::vector<Filter> filters = {Filter::kArea};
  // Colour jitter; 0 is off. The first three scale by a factor uniform in [max(0, 1 − x), 1 + x], hue shifts
  // by up to ± x turns. Applied to the crop in this order.
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  double jitter_share = 1;  // of crops that are jittered
  double grey = 0;          // share of crops that then lose their colour
  double min_area = 1;  // below 1: random resized crops of at least this share, instead of padding and crop
};

// Without randomness: the whole image, resized to `size` if it is larger, or its centre.
Augmentation plain(int64_t size);

// uint8 n×C×size×size: row i is crops[i]; zeros outside of the image. The seed of a crop decides, in this
// order:
//   1. the row and the column where the crop starts, uniform over all positions inside the padded image (only
//      if random_crop is true and min_area is 1),
//   2. whether it is mirrored,
//   3. the amounts of jitter,
//   4. whether it is jittered,
//   5. whether it becomes grey,
//   6. the box of a random resized crop (only if min_area is below 1);
// and, on its own, the filter. Nothing else matters, so a crop is the same alone and in any batch. float32
// points stay as they are.
at::Tensor cut(const ImageSet& images, const Crop* crops, int64_t count, const Augmentation& augmentation);

// Whether cut() neither changes colours nor cuts random resized crops, so that a GPU can do it.
bool only_moves(const Augmentation& augmentation);

// What the seeds decide, for code that cuts elsewhere: int32 n×4. Each row contains the image, the row and
// the column at which the crop starts (they may be negative; they refer to the resized image if `resize` is
// set), and 1 if the crop is mirrored.
at::Tensor crop_places(const ImageSet& images, const Crop* crops, int64_t count,
                       const Augmentation& augmentation);

}  // namespace poem

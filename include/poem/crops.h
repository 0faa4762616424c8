// Cuts batches out of image sets: random crop with padding, flip, colour jitter, resize, on whole uint8
// batches. What is cut is decided by a 64-bit seed a crop, so an (image, crop) pair can be stored in 16 bytes
// and cut again at any time: that is how mined outliers, the queue and checkpoints refer to images.
#pragma once
#include <cstdint>
#include <vector>

#include "poem/images.h"

namespace poem {

struct Crop {  // one view of one image
  int64_t image;
  uint64_t seed;
};

struct Augmentation {
  int64_t size = 32;        // side of what is cut
  int64_t padding = 4;      // zeros around the image before the random crop
  bool random_crop = true;  // false: the centre
  bool flip = true;         // mirror left-right with probability 1/2
  // Images with a side above `size` are first shrunk to size×size by area averaging; false: crop from the
  // original.
  bool resize = false;
  // Colour jitter; 0 is off. The first three scale by a factor uniform in [max(0, 1 − x), 1 + x], hue shifts
  // by up to ± x turns. Applied to the crop in this order.
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  double jitter_share = 1;  // of crops that are jittered
  double grey = 0;          // share of crops that then lose their colour
  double min_area = 1;  // below 1: random resized crops (images/resized_crop.h) instead of padding and crop
};

// No randomness: the whole image resized to `size` if it is larger, else its centre.
Augmentation plain(int64_t size);

// uint8 n×C×size×size, row i being crops[i] of images.pixels; zeros outside the image. The seed decides, in
// this order: the row and the column of the crop (uniform over all positions inside the padded image), the
// flip, the jitter, whether it is jittered and grey, the resized crop. Nothing else matters, so a crop is the
// same alone and in any batch. float32 points pass through unchanged.
at::Tensor cut(const ImageSet& images, const Crop* crops, int64_t count, const Augmentation& augmentation);

// Whether cut() changes colours, which it does on the CPU alone.
bool only_moves(const Augmentation& augmentation);

// What the seeds decide, for who cuts elsewhere: int32 n×4, a row being the image, the row and the column of
// it (resized where that is asked for) at which the crop starts, which may be negative, and 1 for mirrored.
at::Tensor crop_places(const ImageSet& images, const Crop* crops, int64_t count,
                       const Augmentation& augmentation);

}  // namespace poem

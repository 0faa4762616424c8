// The usual ways to make an image smaller. Photos of a pool that were all made small in the same way can be
// told from ID images by their sharpness alone; if each crop draws its filter, a network must look at more.
//
//   Filters filters({Filter::kLanczos, Filter::kGaussian}, {64, 64}, {32, 32});
//   std::vector<uint8_t> room(3 * 32 * 32);
//   const uint8_t* small = filters(pixels, /*channels=*/3, crop.seed, room.data());
//
// kArea      the mean of the area that a pixel covers
// kTriangle  bilinear, kBicubic (a = −½), kLanczos (3 lobes): stretched by the scale, as in Pillow
// kGaussian  standard deviation from 0.25 to 1.1 pixels of the result
// kNearest   every n-th pixel
// kPiece     a random piece of the original, not resized
//
// An image that keeps its size is left as it is, except by kGaussian. So is a smaller file that was read at
// twice its size (ReadOptions::repeat_small), whose own pixels are the area mean. All sums are of whole
// numbers, so the bytes are the same on every machine.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "images/resize.h"
#include "poem/crops.h"

namespace poem {

std::vector<std::string> filter_names();    // "area", …, in the order of Filter
Filter filter_of(const std::string& name);  // the name must be one of these

class Filters {
 public:
  struct Size {
    int64_t height, width;
  };
  Filters(const std::vector<Filter>& filters, Size from, Size to);

  // uint8 channels×from → channels×to. The seed draws one of the filters, each equally likely, and its width
  // or place. `repeated`: is_repeated() of the image. Returns `room` with the result in it, or `in` if there
  // is nothing to do.
  const uint8_t* operator()(const uint8_t* in, int64_t channels, uint64_t seed, uint8_t* room,
                            bool repeated = false) const;

  // The same in two steps, for code that resamples elsewhere. A pixel of the result is the sum of the source
  // pixels under it, by the weights of its row and of its column, divided by 4^kBits: rounded, and clamped to
  // a byte.
  static constexpr int kBits = 15;  // of a weight: with them, Σ weight · pixel fits in 32 bits
  struct Taps {                     // the source pixels of one row or column of the result
    int32_t first, count;
    int32_t weights;  // where theirs begin in weights(); they add up to 2^kBits
  };
  struct Drawn {  // where the rows and the columns of the result begin in taps(); −1: the area mean, or the
    int32_t rows, columns;  // image as it is if it keeps its size
  };
  Drawn draw(uint64_t seed, bool repeated = false) const;
  const std::vector<Taps>& taps() const { return taps_; }
  const std::vector<int32_t>& weights() const { return weights_; }

 private:
  std::vector<int32_t> add_variants(Filter filter, int64_t length, int64_t size);
  void add_kernel(Filter filter, int64_t variant, int64_t length, int64_t size);
  void add_single(Filter filter, int64_t variant, int64_t length, int64_t size);
  void resample(const Drawn& drawn, const uint8_t* in, int64_t channels, uint8_t* out) const;

  std::vector<Filter> filters_;
  Size from_, to_;
  bool shrinks_;
  std::optional<AreaAverage> area_;
  std::vector<Taps> taps_;
  std::vector<int32_t> weights_;
  std::vector<std::vector<int32_t>> rows_, columns_;  // by filter and variant: where it begins in taps_
};

// Whether the image is a smaller file, of which each pixel was repeated 2×2 (ReadOptions::repeat_small).
bool is_repeated(const ImageSet& images, int64_t image);

// Whether cut() makes these images smaller first; and how, one filter drawn per crop.
bool shrinks(const ImageSet& images, const Augmentation& augmentation);
Filters crop_filters(const ImageSet& images, const Augmentation& augmentation);

}  // namespace poem

// Brings images to one size.
//
//   const at::Tensor small = fit(images, 32);
//   AreaAverage shrink({64, 32, 0, 32}, {64, 32, 0, 32});
//   shrink(pixels, 3, out);   // 3×64×64 → 3×32×32
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace poem {

// uint8 n×C×H×W → n×C×size×size: the shorter side becomes `size` (shrinking averages areas, growing is
// bilinear), then the centre is cut out. size 0, or images that have it already: returned as they are.
at::Tensor fit(const at::Tensor& images, int64_t size);

// The same for an even size, but an image with a shorter side below it is brought to half of it, and each
// pixel is repeated 2×2.
at::Tensor fit_or_repeat(const at::Tensor& images, int64_t size);

// Whether each pixel of a channels×height×width image is repeated 2×2: the mean of areas then halves it
// without loss.
bool is_repeated(const uint8_t* image, int64_t channels, int64_t height, int64_t width);

// Resamples images of one shape: each pixel becomes the mean of the area it covers, in whole numbers and
// rounded half up, so the bytes are the same on every machine.
class AreaAverage {
 public:
  struct Axis {  // `length` pixels become `scaled`, of which `count` from `first` on are wanted
    int64_t length, scaled, first, count;
  };
  AreaAverage(const Axis& rows, const Axis& columns);

  // uint8 channels×rows.length×columns.length → channels×rows.count×columns.count
  void operator()(const uint8_t* in, int64_t channels, uint8_t* out) const;
  // The same from rows.length×columns.length×3, as decoders write it. Rows begin `stride` bytes apart.
  void from_rgb(const uint8_t* in, int64_t stride, uint8_t* out) const;

 private:
  // The source pixels under each pixel, with their weights: `taps` from first[i] on, of which some weigh 0.
  struct Covers {
    explicit Covers(const Axis& axis);
    int64_t length, count, taps = 0;
    int64_t total;  // the sum of the weights under a pixel
    std::vector<int64_t> first;
    std::vector<int64_t> weights;  // count × taps
  };
  template <int kChannels>
  void from_rows(const uint8_t* in, int64_t stride, uint8_t* out) const;
  template <int kChannels, typename Number>
  void average(const uint8_t* in, int64_t stride, uint8_t* out) const;

  Covers rows_, columns_;
};

}  // namespace poem

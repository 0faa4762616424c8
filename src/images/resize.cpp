#include "images/resize.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <vector>

namespace poem {
namespace {

// `length` scaled by size / shorter, of which the middle `size` pixels are kept.
AreaAverage::Axis middle(int64_t length, int64_t size, int64_t shorter) {
  const int64_t scaled = length * size / shorter;
  return {length, scaled, (scaled - size) / 2, size};
}

bool is_rgb_by_pixel(const at::Tensor& images) {  // H×W×3, seen as 3×H×W
  return images.size(1) == 3 && images.stride(1) == 1 && images.stride(3) == 3;
}

void shrink(const at::Tensor& images, int64_t size, const at::Tensor& fitted) {
  const int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  const int64_t shorter = std::min(height, width);
  const AreaAverage average(middle(height, size, shorter), middle(width, size, shorter));
  const bool by_pixel = is_rgb_by_pixel(images);
  const at::Tensor source = by_pixel ? images : images.contiguous();
  at::parallel_for(0, images.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* in = source.data_ptr<uint8_t>() + i * source.stride(0);
      uint8_t* out = fitted.data_ptr<uint8_t>() + i * fitted.stride(0);
      if (by_pixel)
        average.from_rgb(in, source.stride(2), out);
      else
        average(in, channels, out);
    }
  });
}

// Where the pixels of an enlarged axis lie in the source: `share` of the way from pixel `before` to pixel
// `after`, which are the same at the border. The same numbers as in LibTorch's upsample_bilinear2d, which
// computes the whole enlarged image.
struct Between {
  explicit Between(const AreaAverage::Axis& axis) {
    const float step = static_cast<float>(axis.length) / static_cast<float>(axis.scaled);
    for (int64_t i = axis.first; i < axis.first + axis.count; ++i) {
      const double place = std::max(0.0, step * (static_cast<double>(i) + 0.5) - 0.5);
      before.push_back(std::min(static_cast<int64_t>(place), axis.length - 1));
      after.push_back(std::min(before.back() + 1, axis.length - 1));
      share.push_back(static_cast<float>(place - static_cast<double>(before.back())));
    }
  }
  std::vector<int64_t> before, after;
  std::vector<float> share;
};

// Of a long image the enlarged whole may take gigabytes, so only the pixels that are kept are computed.
void grow(const at::Tensor& images, int64_t size, const at::Tensor& fitted) {
  const int64_t shorter = std::min(images.size(2), images.size(3));
  const Between rows(middle(images.size(2), size, shorter)), columns(middle(images.size(3), size, shorter));
  const int64_t channels = images.size(1), across = images.stride(3);
  // Rounded once after the sum, as by processors that multiply and add in one step.
  const auto mix = [](float first, float second, float share) {
    return static_cast<float>(static_cast<double>(first) * (1 - share) + second * share);
  };
  at::parallel_for(0, images.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t plane = begin * channels; plane < end * channels; ++plane) {
      const uint8_t* in = images.data_ptr<uint8_t>() + plane / channels * images.stride(0) +
                          plane % channels * images.stride(1);
      uint8_t* out = fitted.data_ptr<uint8_t>() + plane * size * size;
      for (int64_t y = 0; y < size; ++y) {
        const uint8_t *top = in + rows.before[y] * images.stride(2),
                      *bottom = in + rows.after[y] * images.stride(2);
        for (int64_t x = 0; x < size; ++x) {
          const int64_t left = columns.before[x] * across, right = columns.after[x] * across;
          const float value = mix(mix(top[left], top[right], columns.share[x]),
                                  mix(bottom[left], bottom[right], columns.share[x]), rows.share[y]);
          *out++ = static_cast<uint8_t>(value + 0.5f);
        }
      }
    }
  });
}

}  // namespace

at::Tensor fit(const at::Tensor& images, int64_t size) {
  if (size == 0 || (images.size(2) == size && images.size(3) == size)) return images;
  const at::Tensor fitted = at::empty({images.size(0), images.size(1), size, size}, at::kByte);
  if (std::min(images.size(2), images.size(3)) >= size)
    shrink(images, size, fitted);
  else
    grow(images, size, fitted);
  return fitted;
}

at::Tensor fit_or_repeat(const at::Tensor& images, int64_t size) {
  if (std::min(images.size(2), images.size(3)) >= size) return fit(images, size);
  return fit(images, size / 2).repeat_interleave(2, 2).repeat_interleave(2, 3);
}

bool is_repeated(const uint8_t* image, int64_t channels, int64_t height, int64_t width) {
  if (height % 2 != 0 || width % 2 != 0) return false;
  for (int64_t y = 0; y < channels * height; y += 2) {
    const uint8_t* row = image + y * width;
    for (int64_t x = 0; x < width; x += 2) {
      if (row[x] != row[x + 1]) return false;
    }
    if (std::memcmp(row, row + width, static_cast<size_t>(width)) != 0) return false;
  }
  return true;
}

// In units of 1/scaled of a source pixel, pixel i is [i·length, (i+1)·length) and source pixel k is
// [k·scaled, (k+1)·scaled); what both have in common divided out.
AreaAverage::Covers::Covers(const Axis& axis)
    : length(axis.length), count(axis.count), total(axis.length / std::gcd(axis.length, axis.scaled)) {
  const int64_t fine = axis.scaled / std::gcd(axis.length, axis.scaled);
  const auto begin = [&](int64_t i) { return (axis.first + i) * total; };
  const auto last = [&](int64_t i) { return (begin(i) + total + fine - 1) / fine; };
  for (int64_t i = 0; i < count; ++i) taps = std::max(taps, last(i) - begin(i) / fine);
  for (int64_t i = 0; i < count; ++i) {
    first.push_back(std::min(begin(i) / fine, length - taps));
    for (int64_t k = first[i]; k < first[i] + taps; ++k) {
      const int64_t covered = std::min(begin(i) + total, (k + 1) * fine) - std::max(begin(i), k * fine);
      weights.push_back(std::max<int64_t>(0, covered));
    }
  }
}

AreaAverage::AreaAverage(const Axis& rows, const Axis& columns) : rows_(rows), columns_(columns) {}

// All numbers are whole and exact: sums stay below 256 · total, which float holds up to 2²⁴ and double up to
// 2⁵³. The quotient is exact too: it is below 256, where the numbers of a type are at most 2⁻¹⁶ or 2⁻⁴⁵
// apart, and if it is not whole, it is 1/total or more below the next whole number.
template <int kChannels, typename Number>
void AreaAverage::average(const uint8_t* in, int64_t stride, uint8_t* out) const {
  const int64_t begin = columns_.first.front() * kChannels, columns = columns_.count;
  const int64_t width = (columns_.first.back() + columns_.taps) * kChannels - begin;
  const int64_t total = rows_.total * columns_.total;
  std::vector<Number> line(width), sums(kChannels * columns);
  const std::vector<Number> column_weights(columns_.weights.begin(), columns_.weights.end());
  for (int64_t y = 0; y < rows_.count; ++y) {
    for (int64_t k = 0; k < rows_.taps; ++k) {
      const auto weight = static_cast<Number>(rows_.weights[y * rows_.taps + k]);
      const uint8_t* from = in + (rows_.first[y] + k) * stride + begin;
      for (int64_t x = 0; x < width; ++x)
        line[x] = (k == 0 ? Number{0} : line[x]) + weight * static_cast<Number>(from[x]);
    }
    const auto sum_columns = [&](auto taps) {
      const Number* weight = column_weights.data();
      for (int64_t x = 0; x < columns; ++x) {
        const Number* from = line.data() + columns_.first[x] * kChannels - begin;
        Number sum[kChannels];
        std::fill_n(sum, kChannels, static_cast<Number>(total / 2));
        for (int64_t k = 0; k < taps; ++k, ++weight, from += kChannels)
          for (int c = 0; c < kChannels; ++c) sum[c] += *weight * from[c];
        for (int c = 0; c < kChannels; ++c) sums[c * columns + x] = sum[c];
      }
    };
    // Halves, and what a decoder has halved: loops of a length that the compiler knows are faster.
    if (columns_.taps == 2)
      sum_columns(std::integral_constant<int64_t, 2>());
    else if (columns_.taps == 3)
      sum_columns(std::integral_constant<int64_t, 3>());
    else
      sum_columns(columns_.taps);
    for (int c = 0; c < kChannels; ++c) {
      const Number* sum = sums.data() + c * columns;
      uint8_t* to = out + (c * rows_.count + y) * columns;
      for (int64_t x = 0; x < columns; ++x)
        to[x] = static_cast<uint8_t>(static_cast<int>(sum[x] / static_cast<Number>(total)));
    }
  }
}

template <int kChannels>
void AreaAverage::from_rows(const uint8_t* in, int64_t stride, uint8_t* out) const {
  constexpr int64_t kMostForFloat = 65535;
  if (rows_.total * columns_.total <= kMostForFloat)
    average<kChannels, float>(in, stride, out);
  else
    average<kChannels, double>(in, stride, out);
}

void AreaAverage::from_rgb(const uint8_t* in, int64_t stride, uint8_t* out) const {
  from_rows<3>(in, stride, out);
}

void AreaAverage::operator()(const uint8_t* in, int64_t channels, uint8_t* out) const {
  for (int64_t c = 0; c < channels; ++c)
    from_rows<1>(in + c * rows_.length * columns_.length, columns_.length,
                 out + c * rows_.count * columns_.count);
}

}  // namespace poem

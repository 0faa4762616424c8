#include "images/resize.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <numeric>

namespace poem {
namespace {

constexpr int64_t kPixels =
    1 << 24;  // brought to floating point at a time, so that a mapped file need not fit in memory

// `length` scaled by size / shorter, of which the middle `size` pixels are kept.
AreaAverage::Axis middle(int64_t length, int64_t size, int64_t shorter) {
  const int64_t scaled = length * size / shorter;
  return {length, scaled, (scaled - size) / 2, size};
}

void shrink(const at::Tensor& images, int64_t size, const at::Tensor& fitted) {
  const int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  const int64_t shorter = std::min(height, width);
  const AreaAverage average(middle(height, size, shorter), middle(width, size, shorter));
  const auto* in = images.data_ptr<uint8_t>();
  auto* out = fitted.data_ptr<uint8_t>();
  at::parallel_for(0, images.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      average(in + i * channels * height * width, channels, out + i * channels * size * size);
  });
}

at::Tensor grow(const at::Tensor& images, int64_t size) {
  const int64_t height = images.size(2), width = images.size(3), shorter = std::min(height, width);
  const auto rows = middle(height, size, shorter), columns = middle(width, size, shorter);
  const at::Tensor values = at::upsample_bilinear2d(images.to(at::kFloat), {rows.scaled, columns.scaled},
                                                    /*align_corners=*/false);
  return values.narrow(2, rows.first, size).narrow(3, columns.first, size).add(0.5).clamp_(0, 255);
}

}  // namespace

at::Tensor fit(const at::Tensor& images, int64_t size) {
  if (size == 0 || (images.size(2) == size && images.size(3) == size)) return images;
  const int64_t count = images.size(0);
  at::Tensor fitted = at::empty({count, images.size(1), size, size}, at::kByte);
  if (std::min(images.size(2), images.size(3)) >= size) {
    shrink(images.contiguous(), size, fitted);
    return fitted;
  }
  const int64_t largest = std::max(images[0].numel(), fitted[0].numel());
  const int64_t block = std::max<int64_t>(1, kPixels / largest);
  for (int64_t first = 0; first < count; first += block) {
    const int64_t n = std::min(block, count - first);
    fitted.narrow(0, first, n).copy_(grow(images.narrow(0, first, n), size));
  }
  return fitted;
}

// In units of 1/scaled of a source pixel, pixel i is [i·length, (i+1)·length) and source pixel k is
// [k·scaled, (k+1)·scaled); what both have in common divided out.
std::vector<AreaAverage::Cover> AreaAverage::covers(const Axis& axis) {
  const int64_t divisor = std::gcd(axis.length, axis.scaled);
  const int64_t coarse = axis.length / divisor, fine = axis.scaled / divisor;
  std::vector<Cover> result;
  for (int64_t i = axis.first; i < axis.first + axis.count; ++i) {
    const int64_t begin = i * coarse, end = begin + coarse;
    Cover cover{begin / fine, (end + fine - 1) / fine, {}};
    for (int64_t k = cover.first; k < cover.last; ++k) {
      cover.weights.push_back(std::min(end, (k + 1) * fine) - std::max(begin, k * fine));
    }
    result.push_back(std::move(cover));
  }
  return result;
}

AreaAverage::AreaAverage(const Axis& rows, const Axis& columns)
    : height_(rows.length),
      width_(columns.length),
      rows_(covers(rows)),
      columns_(covers(columns)),
      total_(rows.length / std::gcd(rows.length, rows.scaled) *
             (columns.length / std::gcd(columns.length, columns.scaled))) {}

void AreaAverage::operator()(const uint8_t* in, int64_t channels, uint8_t* out) const {
  std::vector<uint32_t> line(width_);
  const auto total = static_cast<double>(total_);
  for (int64_t c = 0; c < channels; ++c, in += height_ * width_) {
    for (const Cover& row : rows_) {
      std::fill(line.begin(), line.end(), 0);
      for (int64_t k = row.first; k < row.last; ++k) {
        const uint8_t* from = in + k * width_;
        const uint32_t weight = row.weights[k - row.first];
        for (int64_t x = 0; x < width_; ++x) line[x] += weight * from[x];
      }
      for (const Cover& column : columns_) {
        auto sum = static_cast<int64_t>(total_ / 2);
        for (int64_t k = column.first; k < column.last; ++k) {
          sum += int64_t{line[k]} * column.weights[k - column.first];
        }
        // The quotient of whole numbers, which processors find faster in floating point. Up to 256 a double
        // has steps of at most 2⁻⁴⁵, and a quotient that is not whole is 1/total_ or more below the next.
        *out++ = static_cast<uint8_t>(static_cast<double>(sum) / total);
      }
    }
  }
}

}  // namespace poem

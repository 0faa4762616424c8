#include "images/filters.h"

#include <algorithm>
#include <cmath>

#include "poem/random.h"

namespace poem {
namespace {

constexpr int64_t kVariants = 32;  // widths of kGaussian, places of kPiece
constexpr int32_t kOne = 1 << Filters::kBits;
constexpr double kNarrowest = 0.25,
                 kWidest = 1.1;  // standard deviations of kGaussian in pixels of the result
constexpr double kPi = 3.14159265358979323846;

constexpr const char* kNames[] = {"area", "triangle", "bicubic", "lanczos", "gaussian", "nearest", "piece"};

double sinc(double x) { return x == 0 ? 1 : std::sin(kPi * x) / (kPi * x); }

// A kernel of the distance in pixels of the result, and the distance from which on it is 0.
struct Kernel {
  double (*value)(double x, double deviation);
  double radius, deviation;
};

Kernel kernel_of(Filter filter, int64_t variant) {
  switch (filter) {
    case Filter::kTriangle:
      return {[](double x, double) { return 1 - x; }, 1, 0};
    case Filter::kBicubic:
      return {[](double x, double) {
                return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : ((-0.5 * x + 2.5) * x - 4) * x + 2;
              },
              2, 0};
    case Filter::kLanczos:
      return {[](double x, double) { return sinc(x) * sinc(x / 3); }, 3, 0};
    default: {  // kGaussian
      const double share = static_cast<double>(variant) / (kVariants - 1);
      const double deviation = kNarrowest + share * (kWidest - kNarrowest);
      return {[](double x, double s) { return std::exp(-0.5 * x * x / (s * s)); }, 4 * deviation, deviation};
    }
  }
}

// Rounds the weights to whole numbers that add up to kOne: the largest takes what rounding leaves.
std::vector<int32_t> rounded(const std::vector<double>& weights) {
  double sum = 0;
  for (double w : weights) sum += w;
  std::vector<int32_t> result;
  int32_t left = kOne;
  for (double w : weights) {
    result.push_back(static_cast<int32_t>(std::lround(w / sum * kOne)));
    left -= result.back();
  }
  *std::max_element(result.begin(), result.end()) += left;
  return result;
}

bool has_variants(Filter filter) { return filter == Filter::kGaussian || filter == Filter::kPiece; }

}  // namespace

std::vector<std::string> filter_names() { return {std::begin(kNames), std::end(kNames)}; }

Filter filter_of(const std::string& name) {
  return static_cast<Filter>(std::find(std::begin(kNames), std::end(kNames), name) - std::begin(kNames));
}

void Filters::add_kernel(Filter filter, int64_t variant, int64_t length, int64_t size) {
  const Kernel kernel = kernel_of(filter, variant);
  const double scale = static_cast<double>(length) / static_cast<double>(size);
  const double stretch = std::max(scale, 1.0), reach = kernel.radius * stretch;
  for (int64_t i = 0; i < size; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;  // pixel k has its centre at k + ½
    const auto first = std::max<int64_t>(0, std::llround(std::ceil(centre - 0.5 - reach)));
    const auto last = std::min<int64_t>(length - 1, std::llround(std::floor(centre - 0.5 + reach)));
    std::vector<double> weights;
    for (int64_t k = first; k <= last; ++k)
      weights.push_back(
          kernel.value(std::abs(static_cast<double>(k) + 0.5 - centre) / stretch, kernel.deviation));
    taps_.push_back({static_cast<int32_t>(first), static_cast<int32_t>(weights.size()),
                     static_cast<int32_t>(weights_.size())});
    for (const int32_t weight : rounded(weights)) weights_.push_back(weight);
  }
}

// kPiece, and kNearest, which also stands in for it along a side that is too short.
void Filters::add_single(Filter filter, int64_t variant, int64_t length, int64_t size) {
  const bool piece = filter == Filter::kPiece && length >= size;
  const int64_t start = variant * (length - size) / (kVariants - 1);
  for (int64_t i = 0; i < size; ++i) {
    const int64_t pixel = piece ? start + i : (2 * i + 1) * length / (2 * size);
    taps_.push_back({static_cast<int32_t>(pixel), 1, static_cast<int32_t>(weights_.size())});
    weights_.push_back(kOne);
  }
}

// Along one side; returns where each variant begins in taps_.
std::vector<int32_t> Filters::add_variants(Filter filter, int64_t length, int64_t size) {
  std::vector<int32_t> begins;
  const bool used = filter != Filter::kArea && (shrinks_ || filter == Filter::kGaussian);
  const int64_t variants = !used ? 0 : has_variants(filter) ? kVariants : 1;
  for (int64_t v = 0; v < variants; ++v) {
    begins.push_back(static_cast<int32_t>(taps_.size()));
    if (filter == Filter::kNearest || filter == Filter::kPiece) {
      add_single(filter, v, length, size);
    } else {
      add_kernel(filter, v, length, size);
    }
  }
  return begins;
}

Filters::Filters(const std::vector<Filter>& filters, Size from, Size to)
    : filters_(filters), from_(from), to_(to), shrinks_(from.height != to.height || from.width != to.width) {
  if (shrinks_)
    area_.emplace(AreaAverage::Axis{from.height, to.height, 0, to.height},
                  AreaAverage::Axis{from.width, to.width, 0, to.width});
  for (Filter filter : filters_) {
    rows_.push_back(add_variants(filter, from.height, to.height));
    columns_.push_back(add_variants(filter, from.width, to.width));
  }
}

Filters::Drawn Filters::draw(uint64_t seed, bool repeated) const {
  Stream stream(seed, "filter");
  const size_t i = stream.below(filters_.size());
  if (rows_[i].empty() || (repeated && filters_[i] != Filter::kGaussian)) return {-1, -1};
  const size_t row = stream.below(rows_[i].size()), other = stream.below(columns_[i].size());
  return {rows_[i][row], columns_[i][filters_[i] == Filter::kPiece ? other : row]};
}

const uint8_t* Filters::operator()(const uint8_t* in, int64_t channels, uint64_t seed, uint8_t* room,
                                   bool repeated) const {
  const Drawn drawn = draw(seed, repeated);
  if (drawn.rows < 0 && !shrinks_) return in;
  if (drawn.rows < 0) {
    (*area_)(in, channels, room);
  } else {
    resample(drawn, in, channels, room);
  }
  return room;
}

// As AreaAverage does it, with weights that may be negative.
void Filters::resample(const Drawn& drawn, const uint8_t* in, int64_t channels, uint8_t* out) const {
  constexpr int64_t kHalf = int64_t{1} << (2 * kBits - 1), kMost = (int64_t{256} << 2 * kBits) - 1;
  std::vector<int32_t> line(from_.width);
  for (int64_t c = 0; c < channels; ++c, in += from_.height * from_.width) {
    for (int64_t y = 0; y < to_.height; ++y) {
      const Taps& row = taps_[drawn.rows + y];
      std::fill(line.begin(), line.end(), 0);
      for (int32_t k = 0; k < row.count; ++k) {
        const uint8_t* from = in + (row.first + k) * from_.width;
        const int32_t weight = weights_[row.weights + k];
        for (int64_t x = 0; x < from_.width; ++x) line[x] += weight * from[x];
      }
      for (int64_t x = 0; x < to_.width; ++x) {
        const Taps& column = taps_[drawn.columns + x];
        int64_t sum = kHalf;
        for (int32_t k = 0; k < column.count; ++k)
          sum += int64_t{line[column.first + k]} * weights_[column.weights + k];
        *out++ = static_cast<uint8_t>(std::clamp<int64_t>(sum, 0, kMost) >> 2 * kBits);
      }
    }
  }
}

bool is_repeated(const ImageSet& images, int64_t image) {
  const int64_t channels = images.channels(), height = images.height(), width = images.width();
  return images.may_repeat &&
         is_repeated(images.pixels.data_ptr<uint8_t>() + images.row(image) * channels * height * width,
                     channels, height, width);
}

bool shrinks(const ImageSet& images, const Augmentation& a) {
  return a.resize && std::max(images.height(), images.width()) > a.size;
}

Filters crop_filters(const ImageSet& images, const Augmentation& a) {
  const Filters::Size from{images.height(), images.width()};
  return {a.filters, from, shrinks(images, a) ? Filters::Size{a.size, a.size} : from};
}

}  // namespace poem

#include "images/fingerprint.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string_view>

#include "images/resize.h"

namespace poem {
namespace {

constexpr int kSide = 16;            // of the small picture
constexpr int kHighest = 10;         // the sum of both frequencies of a wave
constexpr float kLeastContrast = 3;  // standard deviation in grey levels; photos are above 8

// The waves of frequencies 0 … kHighest along one side, each of length 1.
struct Basis {
  float wave[kHighest + 1][kSide];

  Basis() {
    const double pi = std::acos(-1.0);
    for (int k = 0; k <= kHighest; ++k) {
      for (int x = 0; x < kSide; ++x)
        wave[k][x] = static_cast<float>(std::sqrt((k == 0 ? 1.0 : 2.0) / kSide) *
                                        std::cos(pi * (x + 0.5) * k / kSide));
    }
  }
};

using Plane = std::array<float, kSide * kSide>;

// The lowest frequencies of a small picture in the order of their sum.
std::array<float, 64> transform(const Plane& picture) {
  static const Basis basis;
  float rows[kSide][kHighest + 1];
  for (int y = 0; y < kSide; ++y) {
    for (int k = 0; k <= kHighest; ++k) {
      float sum = 0;
      for (int x = 0; x < kSide; ++x) sum += basis.wave[k][x] * picture[y * kSide + x];
      rows[y][k] = sum;
    }
  }
  std::array<float, 64> waves;
  size_t next = 0;
  for (int sum = 1; sum <= kHighest; ++sum) {
    for (int k = 0; k <= sum && next < waves.size(); ++k) {
      float wave = 0;
      for (int y = 0; y < kSide; ++y) wave += basis.wave[sum - k][y] * rows[y][k];
      waves[next++] = wave;
    }
  }
  return waves;
}

void set_waves(Fingerprint& mark, const Plane& brightness) {
  const std::array<float, 64> waves = transform(brightness);
  float square = 0;
  for (const float wave : waves) square += wave * wave;
  if (square < kLeastContrast * kLeastContrast * kSide * kSide) return;
  const float scale = 127 / std::sqrt(square);
  for (size_t i = 0; i < waves.size(); ++i) {
    mark.signs |= uint64_t{waves[i] > 0} << i;
    mark.waves[i] = static_cast<int8_t>(std::lround(scale * waves[i]));
  }
}

// The mean of `plane` less the brightness in each of 4×4 fields, halved.
void set_colours(const uint8_t* plane, const Plane& brightness, int8_t* colours) {
  constexpr int kFields = 4, kField = kSide / kFields;
  std::array<float, kFields * kFields> sums{};
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x)
      sums[y / kField * kFields + x / kField] += plane[y * kSide + x] - brightness[y * kSide + x];
  }
  for (const float sum : sums) *colours++ = static_cast<int8_t>(std::lround(sum / (2 * kField * kField)));
}

// `picture` is channels×kSide×kSide.
void set_look(Fingerprint& mark, const uint8_t* picture, int64_t channels) {
  constexpr int kArea = kSide * kSide;
  Plane brightness;
  if (channels != 3) {
    std::copy(picture, picture + kArea, brightness.begin());
    set_waves(mark, brightness);
    return;
  }
  const uint8_t *red = picture, *green = red + kArea, *blue = green + kArea;
  for (int i = 0; i < kArea; ++i) brightness[i] = 0.299f * red[i] + 0.587f * green[i] + 0.114f * blue[i];
  set_waves(mark, brightness);
  set_colours(red, brightness, mark.colours.data());
  set_colours(blue, brightness, mark.colours.data() + mark.colours.size() / 2);
}

constexpr double kLeastColour = 2;  // below it, on average, an image counts as grey

double difference(const std::array<int8_t, 32>& a, const std::array<int8_t, 32>& b) {
  int sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::abs(a[i] - b[i]);
  return static_cast<double>(sum) / static_cast<double>(a.size());
}

bool grey(const Fingerprint& mark) { return difference(mark.colours, {}) < kLeastColour; }

}  // namespace

bool Fingerprint::flat() const { return waves == std::array<int8_t, 64>{}; }

uint64_t hash_of(const void* bytes, size_t count) {
  return std::hash<std::string_view>()({static_cast<const char*>(bytes), count});
}

std::vector<Fingerprint> fingerprints(const at::Tensor& pixels) {
  const at::Tensor whole = pixels.contiguous(), pictures = fit(whole, kSide);
  const auto bytes = static_cast<size_t>(whole.numel() / std::max<int64_t>(1, whole.size(0)));
  const std::array<int64_t, 3> shape = {whole.size(1), whole.size(2), whole.size(3)};
  const uint64_t shape_hash = hash_of(shape.data(), sizeof shape);
  const auto *in = whole.data_ptr<uint8_t>(), *small = pictures.data_ptr<uint8_t>();
  std::vector<Fingerprint> marks(static_cast<size_t>(whole.size(0)));
  at::parallel_for(0, whole.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Fingerprint& mark = marks[static_cast<size_t>(i)];  // zeros
      mark.pixels = shape_hash ^ hash_of(in + static_cast<size_t>(i) * bytes, bytes);
      set_look(mark, small + i * whole.size(1) * kSide * kSide, whole.size(1));
    }
  });
  return marks;
}

bool same_pixels(const Fingerprint& a, const Fingerprint& b) {
  return a.pixels == b.pixels && a.waves == b.waves;
}

double likeness(const Fingerprint& a, const Fingerprint& b) {
  int dot = 0, a_square = 0, b_square = 0;
  for (size_t i = 0; i < a.waves.size(); ++i) {
    dot += a.waves[i] * b.waves[i];
    a_square += a.waves[i] * a.waves[i];
    b_square += b.waves[i] * b.waves[i];
  }
  return dot / std::sqrt(std::max(1.0, static_cast<double>(a_square) * b_square));
}

double tint(const Fingerprint& a, const Fingerprint& b) {
  return grey(a) || grey(b) ? 0 : difference(a.colours, b.colours);
}

bool look_alike(const Fingerprint& a, const Fingerprint& b) {
  return count_ones(a.signs ^ b.signs) <= kMostSigns && likeness(a, b) >= kLeastLikeness &&
         tint(a, b) <= kMostTint;
}

}  // namespace poem

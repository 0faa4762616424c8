#include "images/filters.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "poem/crops.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr Filter kAll[] = {Filter::kArea,     Filter::kTriangle, Filter::kBicubic, Filter::kLanczos,
                           Filter::kGaussian, Filter::kNearest,  Filter::kPiece};

using Image = std::vector<uint8_t>;

Image noise(int64_t pixels, uint64_t seed) {
  Stream stream(seed, "noise");
  Image image;
  for (int64_t i = 0; i < pixels; ++i) image.push_back(static_cast<uint8_t>(stream.below(256)));
  return image;
}

Image filtered(Filter filter, const Image& image, Filters::Size from, Filters::Size to, uint64_t seed) {
  const auto channels = static_cast<int64_t>(image.size()) / (from.height * from.width);
  Image room(channels * to.height * to.width);
  const uint8_t* out = Filters({filter}, from, to)(image.data(), channels, seed, room.data());
  return {out, out + room.size()};
}

using Kernel = std::function<double(double)>;  // of the distance in pixels of the result

Kernel gaussian(double deviation) {
  return [=](double x) { return std::exp(-x * x / (2 * deviation * deviation)); };
}

double bicubic(double x) {  // Keys 1981, a = −1/2
  x = std::abs(x);
  if (x < 1) return 1.5 * std::pow(x, 3) - 2.5 * std::pow(x, 2) + 1;
  return x < 2 ? -0.5 * std::pow(x, 3) + 2.5 * std::pow(x, 2) - 4 * x + 2 : 0;
}

double lanczos(double x) {
  if (x == 0) return 1;
  return std::abs(x) < 3 ? 3 * std::sin(kPi * x) * std::sin(kPi * x / 3) / (kPi * kPi * x * x) : 0;
}

// Every pixel as a weighted mean over the whole image, in float64.
std::vector<double> plainly(const Kernel& kernel, const Image& image, Filters::Size from, Filters::Size to) {
  const auto weight = [&](int64_t i, int64_t k, int64_t length, int64_t size) {
    const double scale = static_cast<double>(length) / static_cast<double>(size);
    return kernel((k + 0.5 - (i + 0.5) * scale) / std::max(1.0, scale));
  };
  std::vector<double> out;
  for (size_t plane = 0; plane < image.size(); plane += from.height * from.width) {
    for (int64_t y = 0; y < to.height; ++y) {
      for (int64_t x = 0; x < to.width; ++x) {
        double sum = 0, weights = 0;
        for (int64_t v = 0; v < from.height; ++v) {
          for (int64_t u = 0; u < from.width; ++u) {
            const double w = weight(y, v, from.height, to.height) * weight(x, u, from.width, to.width);
            sum += w * image[plane + v * from.width + u];
            weights += w;
          }
        }
        out.push_back(std::clamp(sum / weights, 0.0, 255.0));
      }
    }
  }
  return out;
}

double largest_difference(const Image& image, const std::vector<double>& expected) {
  double largest = image.size() == expected.size() ? 0 : 1e9;
  for (size_t i = 0; i < std::min(image.size(), expected.size()); ++i)
    largest = std::max(largest, std::abs(image[i] - expected[i]));
  return largest;
}

constexpr double kRounding = 0.5 + 0.1;  // to a byte, and of the weights to 15 bits

TEST(Filters, EqualPlainLoops) {
  const std::pair<Filter, Kernel> kernels[] = {
      {Filter::kTriangle, [](double x) { return std::max(0.0, 1 - std::abs(x)); }},
      {Filter::kBicubic, bicubic},
      {Filter::kLanczos, lanczos}};
  const std::pair<Filters::Size, Filters::Size> sizes[] = {
      {{64, 64}, {32, 32}}, {{13, 20}, {5, 8}}, {{40, 9}, {12, 12}}};  // the last grows along one side
  for (const auto& [filter, kernel] : kernels) {
    for (const auto& [from, to] : sizes) {
      const Image image = noise(2 * from.height * from.width, 1);
      EXPECT_LT(largest_difference(filtered(filter, image, from, to, 7), plainly(kernel, image, from, to)),
                kRounding)
          << static_cast<int>(filter) << " " << from.height;
    }
  }
}

// Of 32 widths, and all of them are drawn.
TEST(Filters, AGaussianHasARandomWidth) {
  for (const Filters::Size from :
       {Filters::Size{20, 24}, Filters::Size{10, 12}}) {  // shrunk, and only blurred
    const Filters::Size to{10, 12};
    const Image image = noise(from.height * from.width, 2);
    std::vector<std::vector<double>> expected;
    for (int i = 0; i < 32; ++i) expected.push_back(plainly(gaussian(0.25 + i * 0.85 / 31), image, from, to));
    std::set<size_t> seen;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const Image result = filtered(Filter::kGaussian, image, from, to, seed);
      size_t width = 0;
      while (width < 32 && largest_difference(result, expected[width]) > kRounding) ++width;
      ASSERT_LT(width, 32u) << seed;
      seen.insert(width);
    }
    EXPECT_GE(seen.size(), 20u);  // neighbours of small width look the same
  }
}

TEST(Filters, AreaIsTheExactMean) {
  const Image image = noise(3 * 8 * 8, 3), small = filtered(Filter::kArea, image, {8, 8}, {4, 4}, 1);
  for (int i = 0; i < 48; ++i) {
    const int at = i / 16 * 64 + i % 16 / 4 * 16 + i % 4 * 2;
    EXPECT_EQ(small[i], (image[at] + image[at + 1] + image[at + 8] + image[at + 9] + 2) / 4);
  }
}

TEST(Filters, NearestTakesEveryNthPixel) {
  const Image image = noise(9 * 6, 4), small = filtered(Filter::kNearest, image, {9, 6}, {3, 2}, 1);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(small[i], image[(i / 2 * 3 + 1) * 6 + i % 2 * 3 + 1]);
}

TEST(Filters, APieceIsCutOutAnywhere) {
  const Image image = noise(12 * 10, 5);
  std::set<int> places;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Image piece = filtered(Filter::kPiece, image, {12, 10}, {8, 8}, seed);
    int found = -1;
    for (int top = 0; top <= 4; ++top) {
      for (int left = 0; left <= 2; ++left) {
        bool same = true;
        for (int i = 0; i < 64; ++i) same = same && piece[i] == image[(top + i / 8) * 10 + left + i % 8];
        if (same) found = top * 3 + left;
      }
    }
    ASSERT_GE(found, 0) << seed;
    places.insert(found);
  }
  EXPECT_GE(places.size(), 14u);
}

TEST(Filters, KeepWhatHasOneColour) {
  for (const Filter filter : kAll) {
    for (const uint8_t colour : {0, 1, 77, 255}) {
      for (uint64_t seed = 0; seed < 10; ++seed) {
        const Image small = filtered(filter, Image(23 * 31, colour), {23, 31}, {10, 10}, seed);
        EXPECT_EQ(small, Image(100, colour)) << static_cast<int>(filter);
      }
    }
  }
}

TEST(Filters, OnlyAGaussianChangesAnImageThatKeepsItsSize) {
  const Image image = noise(8 * 8, 6);
  for (const Filter filter : kAll)
    EXPECT_EQ(filtered(filter, image, {8, 8}, {8, 8}, 3) == image, filter != Filter::kGaussian);
}

TEST(Filters, AreDrawnEquallyOften) {
  const Image image = noise(16 * 16, 7);
  const Image area = filtered(Filter::kArea, image, {16, 16}, {8, 8}, 1),
              nearest = filtered(Filter::kNearest, image, {16, 16}, {8, 8}, 1);
  const Filters filters({Filter::kArea, Filter::kNearest, Filter::kNearest}, {16, 16}, {8, 8});
  int means = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Image room(64);
    const uint8_t* out = filters(image.data(), 1, seed, room.data());
    const Image result(out, out + 64);
    ASSERT_TRUE(result == area || result == nearest);
    means += result == area;
  }
  EXPECT_NEAR(means, 1000, 5 * 26);  // a name that occurs twice is drawn twice as often
}

TEST(Filters, HaveNames) {
  const std::vector<std::string> names = filter_names();
  ASSERT_EQ(names.size(), std::size(kAll));
  for (size_t i = 0; i < names.size(); ++i) EXPECT_EQ(filter_of(names[i]), kAll[i]);
}

ImageSet images(int64_t count, int64_t side) {
  const Image bytes = noise(count * 3 * side * side, 8);
  return {"noise", at::tensor(bytes, at::kByte).view({count, 3, side, side}), {}, {}};
}

Augmentation with(std::vector<Filter> filters) {
  Augmentation a;
  a.size = 8;
  a.padding = 2;
  a.resize = true;
  a.filters = std::move(filters);
  return a;
}

TEST(Cut, FiltersACropAloneAsInAnyBatch) {
  const Augmentation a = with({std::begin(kAll), std::end(kAll)});
  for (const int64_t side : {16, 8}) {
    const ImageSet set = images(5, side);
    std::vector<Crop> crops;
    for (uint64_t i = 0; i < 60; ++i) crops.push_back({static_cast<int64_t>(i % 5), 100 + i});
    const at::Tensor all = cut(set, crops.data(), 60, a);
    for (int64_t i = 0; i < 60; ++i) EXPECT_TRUE(cut(set, &crops[i], 1, a)[0].equal(all[i])) << i;
  }
}

// Crop and flip are drawn as without filters: what is not resized stays to the byte.
TEST(Cut, TheFilterDoesNotChangeTheOtherDraws) {
  const ImageSet set = images(5, 8);
  const Crop crops[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}};
  EXPECT_TRUE(cut(set, crops, 5, with({Filter::kLanczos})).equal(cut(set, crops, 5, with({Filter::kArea}))));
  EXPECT_FALSE(
      cut(set, crops, 5, with({Filter::kGaussian})).equal(cut(set, crops, 5, with({Filter::kArea}))));
}

// As the GPU does it: pixel by pixel, from the tables.
TEST(Filters, TablesGiveTheSamePixels) {
  for (const Filters::Size to : {Filters::Size{8, 8}, Filters::Size{20, 13}}) {  // the second keeps the size
    const Filters::Size from{20, 13};
    const Filters filters({std::begin(kAll), std::end(kAll)}, from, to);
    const Image image = noise(2 * from.height * from.width, 6);
    int filtered = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const Filters::Drawn drawn = filters.draw(seed);
      if (drawn.rows < 0) continue;
      ++filtered;
      Image room(2 * to.height * to.width);
      const uint8_t* expected = filters(image.data(), 2, seed, room.data());
      for (int64_t i = 0; i < 2 * to.height * to.width; ++i) {
        const Filters::Taps& row = filters.taps()[drawn.rows + i / to.width % to.height];
        const Filters::Taps& column = filters.taps()[drawn.columns + i % to.width];
        double sum = 0;
        for (int r = 0; r < row.count; ++r)
          for (int c = 0; c < column.count; ++c)
            sum += static_cast<double>(filters.weights()[row.weights + r]) *
                   filters.weights()[column.weights + c] *
                   image[i / (to.width * to.height) * from.width * from.height +
                         (row.first + r) * from.width + column.first + c];
        ASSERT_EQ(expected[i], std::clamp(std::floor(sum / (1 << 30) + 0.5), 0.0, 255.0)) << seed << " " << i;
      }
    }
    EXPECT_GT(filtered, 10);
  }
}

}  // namespace
}  // namespace poem

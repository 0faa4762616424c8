#include "world/world.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "poem/error.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr uint64_t kSeed = 1;

std::set<std::string> contents(const ImageSet& images) {
  std::set<std::string> seen;
  const auto* p = images.pixels.data_ptr<uint8_t>();
  for (int64_t i = 0; i < images.size(); ++i) seen.emplace(reinterpret_cast<const char*>(p) + i * 3072, 3072);
  return seen;
}

TEST(World, HasItsTenSets) {
  const std::vector<std::string> expected = {"train",    "test",   "outliers", "procedural", "digits",
                                             "textures", "scenes", "cropped",  "resized",    "patches"};
  EXPECT_EQ(world_sets(), expected);
}

TEST(World, ImageIsAFunctionOfSeedSetAndIndexAlone) {
  for (const std::string& set : world_sets()) {
    const ImageSet many = draw_world(set, 40, kSeed), few = draw_world(set, 11, kSeed);
    ASSERT_EQ(many.pixels.sizes(), at::IntArrayRef({40, 3, 32, 32}));
    ASSERT_EQ(many.pixels.scalar_type(), at::kByte);
    EXPECT_TRUE(at::equal(many.pixels.slice(0, 0, 11), few.pixels)) << set;
    EXPECT_FALSE(at::equal(few.pixels, draw_world(set, 11, kSeed + 1).pixels)) << set;
    ASSERT_EQ(many.labelled(), few.labelled());
    if (many.labelled()) {
      EXPECT_TRUE(at::equal(many.labels.slice(0, 0, 11), few.labels));
    }
  }
}

TEST(World, OutliersAreLabelledWithTheirFamilies) {
  const ImageSet images = draw_world("outliers", 4800, kSeed);
  ASSERT_EQ(images.class_names.size(), 24u);
  const at::Tensor counts = at::bincount(images.labels, {}, 24);
  // Five families of whole pictures and nineteen of objects: every one a twenty-fourth of the pool.
  EXPECT_GT(counts.min().item<int64_t>(), 140);
  EXPECT_LT(counts.max().item<int64_t>(), 260);
  // Bare backgrounds vary least, of whatever is drawn upon them.
  const at::Tensor contrast = images.pixels.to(at::kFloat).flatten(2).std(2).mean(1);
  const auto mean_of = [&](const char* name) {
    const auto found = std::find(images.class_names.begin(), images.class_names.end(), name);
    return contrast.index({images.labels.eq(found - images.class_names.begin())}).mean().item<double>();
  };
  for (const char* name : {"stripes", "crowd", "collage", "polygons", "face"})
    EXPECT_LT(mean_of("background"), mean_of(name)) << name;
}

TEST(World, ProceduralImagesAreLabelledWithTheirFamilies) {
  const int64_t count = 3900;
  const ImageSet images = draw_world("procedural", count, kSeed);
  const at::Tensor counts = at::bincount(images.labels, {}, 13);
  ASSERT_EQ(counts.numel(), 13);
  ASSERT_EQ(images.class_names.size(), 13u);
  EXPECT_GT(counts.min().item<int64_t>(), 240);  // 300 of each family, give or take 3.6 deviations
  EXPECT_LT(counts.max().item<int64_t>(), 360);
  // No picture is empty: even a plain colour under the camera's light has a contrast below 8.
  const at::Tensor contrast = images.pixels.to(at::kFloat).flatten(2).std(2).mean(1);
  EXPECT_GT(contrast.min().item<double>(), 8);
  // A family is known without drawing: it is the first draw from the image's stream.
  for (int64_t i = 0; i < 50; ++i) {
    Stream stream(kSeed, "world:procedural", i);
    EXPECT_EQ(images.labels[i].item<int64_t>(), static_cast<int64_t>(stream.below(13)));
  }
}

// Each family has a structure of its own; a picture of another family rarely does.
TEST(World, ProceduralFamiliesShowWhatTheirNamesSay) {
  const ImageSet images = draw_world("procedural", 1300, kSeed);
  const auto of = [&](const std::string& name) {
    const auto found = std::find(images.class_names.begin(), images.class_names.end(), name);
    EXPECT_NE(found, images.class_names.end()) << name;
    return images.pixels.index({images.labels.eq(found - images.class_names.begin())})
        .to(at::kDouble)
        .mean(1);
  };
  // The share of an image's variance (without its mean) at radial frequencies from `low` to `high`.
  const auto band = [&](const at::Tensor& grey, double low, double high) {
    const at::Tensor power = at::fft_fft2(grey - grey.mean({1, 2}, true)).abs().square();
    const at::Tensor k = at::fft_fftfreq(32, 1.0 / 32, at::kDouble);
    const at::Tensor f = (k.square().unsqueeze(0) + k.square().unsqueeze(1)).sqrt();
    const at::Tensor inside = f.ge(low).logical_and(f.lt(high));
    return (power.mul(inside).sum({1, 2}) / power.sum({1, 2})).mean().item<double>();
  };
  EXPECT_GT(band(of("labyrinth"), 1.5, 9), 0.7);  // one wavelength, not smooth …
  EXPECT_LT(band(of("labyrinth"), 0, 1.5), 0.15);
  EXPECT_GT(band(of("contours"), 0, 3), 0.5);  // … and hills are
  EXPECT_GT(band(of("spectrum"), 0, 3), 0.4);
}

TEST(World, OnlyClassesAndOutliersAreLabelledAndTheClassesAreBalanced) {
  for (const std::string& set : world_sets()) {
    if (set == "outliers" || set == "procedural") continue;
    const ImageSet images = draw_world(set, 804, kSeed);  // 100 full rounds and half a round
    if (set != "train" && set != "test") {
      EXPECT_FALSE(images.labelled());
      EXPECT_TRUE(images.class_names.empty());
      continue;
    }
    ASSERT_EQ(images.class_names.size(), 8u);
    std::vector<int> count(8);
    for (int64_t i = 0; i < 804; ++i) ++count.at(images.labels[i].item<int64_t>());
    for (int n : count) EXPECT_TRUE(n == 100 || n == 101);
    EXPECT_FALSE(at::equal(images.labels.slice(0, 0, 8), images.labels.slice(0, 8, 16)));
  }
}

TEST(World, NoImageOccursTwice) {
  std::set<std::string> all;
  for (const std::string& set : world_sets()) all.merge(contents(draw_world(set, 200, kSeed)));
  EXPECT_EQ(all.size(), 10u * 200u);
}

struct Look {
  double mean, deviation, contrast;  // of all bytes; contrast: mean deviation inside an image's channel
};

Look look(const std::string& set, int64_t count) {
  const at::Tensor x = draw_world(set, count, kSeed).pixels.to(at::kDouble);
  return {x.mean().item<double>(), x.std().item<double>(), x.flatten(2).std(2).mean().item<double>()};
}

// Background, colours and camera are shared, so brightness and contrast alone must not tell OOD from ID.
TEST(World, LowLevelStatisticsAgreeAcrossSets) {
  const Look id = look("test", 500);
  for (const std::string& set : world_sets()) {
    const Look other = look(set, 500);
    EXPECT_NEAR(other.mean, id.mean, 8) << set;
    EXPECT_NEAR(other.deviation, id.deviation, 8) << set;
    EXPECT_NEAR(other.contrast, id.contrast, 9) << set;
  }
}

// Version 1 is frozen: whoever changes a picture must raise kWorldVersion and these figures. Rounding may
// differ by a level between compilers, hence a tolerance instead of a checksum.
TEST(World, LooksAsItsVersionSays) {
  ASSERT_EQ(kWorldVersion, 1);
  const std::map<std::string, Look> version1 = {
      {"train", {98.709, 53.383, 36.817}},     {"test", {107.763, 49.113, 34.056}},
      {"outliers", {100.275, 50.295, 31.156}}, {"procedural", {106.405, 49.176, 35.049}},
      {"digits", {105.679, 56.197, 41.775}},   {"textures", {101.051, 42.348, 28.967}},
      {"scenes", {95.090, 48.191, 36.858}},    {"cropped", {103.857, 54.882, 36.826}},
      {"resized", {107.257, 47.868, 33.546}},  {"patches", {105.319, 52.612, 34.200}},
  };
  for (const std::string& set : world_sets()) {
    const Look now = look(set, 64);
    const Look& then = version1.at(set);
    EXPECT_NEAR(now.mean, then.mean, 0.01) << set;
    EXPECT_NEAR(now.deviation, then.deviation, 0.01) << set;
    EXPECT_NEAR(now.contrast, then.contrast, 0.01) << set;
  }
}

template <class F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(World, NamesUnknownSetsAndBadCounts) {
  const std::string unknown = error_of([] { draw_world("texture", 5, 1); });
  EXPECT_NE(unknown.find("texture"), std::string::npos);
  for (const std::string& set : world_sets()) EXPECT_NE(unknown.find(set), std::string::npos) << unknown;
  const std::string points = error_of([] { draw_world_2d("digits", 5, 1); });
  EXPECT_NE(points.find("outliers, ood"), std::string::npos) << points;
  for (int64_t count : {0, -3}) {
    EXPECT_NE(error_of([&] { draw_world("train", count, 1); }).find(std::to_string(count)),
              std::string::npos);
    EXPECT_NE(error_of([&] { draw_world_2d("ood", count, 1); }).find(std::to_string(count)),
              std::string::npos);
  }
}

TEST(World2d, ClassesAreGaussians) {
  const int64_t n = 30000;
  const double root3 = std::sqrt(3.0), means[3][2] = {{0, 2}, {-root3, -1}, {root3, -1}};
  const ImageSet points = draw_world_2d("train", n, kSeed);
  ASSERT_EQ(points.pixels.sizes(), at::IntArrayRef({n, 2, 1, 1}));
  ASSERT_EQ(points.class_names.size(), 3u);
  for (int64_t label = 0; label < 3; ++label) {
    const at::Tensor x = points.pixels.view({n, 2}).to(at::kDouble).index({points.labels.eq(label)});
    ASSERT_EQ(x.size(0), n / 3);
    const double error = 5 / std::sqrt(n / 3.0);  // five standard errors
    for (int64_t axis = 0; axis < 2; ++axis) {
      EXPECT_NEAR(x.select(1, axis).mean().item<double>(), means[label][axis], 0.4 * error);
      EXPECT_NEAR(x.select(1, axis).std().item<double>(), 0.4, 0.4 * error);
    }
    const at::Tensor d = x - x.mean(0);
    EXPECT_NEAR(d.select(1, 0).mul(d.select(1, 1)).mean().item<double>(), 0, 0.16 * error);
  }
}

TEST(World2d, OutliersAreUniformAndTwoDeviationsAway) {
  const double root3 = std::sqrt(3.0), means[3][2] = {{0, 2}, {-root3, -1}, {root3, -1}};
  for (const char* set : {"outliers", "ood"}) {
    const int64_t n = 20000;
    const ImageSet points = draw_world_2d(set, n, kSeed);
    EXPECT_FALSE(points.labelled());
    const auto x = points.pixels.accessor<float, 4>();
    double nearest = 9, furthest = 0;
    int band = 0;  // between 2 and 4 deviations from the first mean
    for (int64_t i = 0; i < n; ++i) {
      for (const auto& mean : means) {
        nearest = std::min(nearest, std::hypot(x[i][0][0][0] - mean[0], x[i][1][0][0] - mean[1]));
      }
      furthest = std::max<double>(furthest, std::max(std::abs(x[i][0][0][0]), std::abs(x[i][1][0][0])));
      band += std::hypot(x[i][0][0][0], x[i][1][0][0] - 2) < 1.6;
    }
    EXPECT_GE(nearest, 0.8 - 1e-5);
    EXPECT_LT(nearest, 0.82);
    EXPECT_LE(furthest, 5);
    EXPECT_GT(furthest, 4.99);
    const double share = M_PI * (1.6 * 1.6 - 0.8 * 0.8) / (100 - 3 * M_PI * 0.8 * 0.8);
    EXPECT_NEAR(band, n * share, 5 * std::sqrt(n * share * (1 - share)));
  }
  EXPECT_FALSE(at::equal(draw_world_2d("outliers", 5, 1).pixels, draw_world_2d("ood", 5, 1).pixels));
  EXPECT_TRUE(at::equal(draw_world_2d("ood", 9, 1).pixels.slice(0, 0, 5), draw_world_2d("ood", 5, 1).pixels));
}

}  // namespace
}  // namespace poem

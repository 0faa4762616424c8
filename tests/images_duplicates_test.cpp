#include "images/duplicates.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "encode_images.h"
#include "expect_error.h"
#include "images/copies.h"
#include "images/resize.h"
#include "poem/random.h"
#include "poem/read.h"

namespace poem {
namespace {

// Pictures like photos: random waves, the slower the stronger. `shift` moves what they show by so many
// pixels.
at::Tensor photos(int64_t count, int64_t side, uint64_t seed, double shift = 0) {
  const at::Tensor pixels = at::empty({count, 3, side, side}, at::kByte);
  auto* out = pixels.data_ptr<uint8_t>();
  constexpr int kWaves = 6;
  for (int64_t image = 0; image < count; ++image) {
    for (int64_t channel = 0; channel < 3; ++channel) {
      Stream stream(seed, "photo", image, channel);
      double strength[kWaves][kWaves], phase[kWaves][kWaves];
      for (int u = 0; u < kWaves; ++u) {
        for (int v = 0; v < kWaves; ++v) {
          strength[u][v] = 60 * (stream.uniform() - 0.5) / (1 + u + v);
          phase[u][v] = 6.28 * stream.uniform();
        }
      }
      for (int64_t y = 0; y < side; ++y) {
        for (int64_t x = 0; x < side; ++x) {
          double value = 128;
          for (int u = 0; u < kWaves; ++u) {
            for (int v = 0; v < kWaves; ++v)
              value += strength[u][v] * std::cos(3.14159 * (u * (x + shift) + v * y) / side + phase[u][v]);
          }
          *out++ = static_cast<uint8_t>(std::lround(std::min(255.0, std::max(0.0, value))));
        }
      }
    }
  }
  return pixels;
}

// The share of images that look like their changed version.
double share_found(const at::Tensor& before, const at::Tensor& after) {
  const auto a = fingerprints(before), b = fingerprints(after);
  double found = 0;
  for (size_t i = 0; i < a.size(); ++i) found += look_alike(a[i], b[i]) && !same_pixels(a[i], b[i]);
  return found / static_cast<double>(a.size());
}

at::Tensor brighter(const at::Tensor& images, int by) {
  return (images.to(at::kInt) + by).clamp_(0, 255).to(at::kByte);
}

// More red and less green, so that the brightness stays.
at::Tensor warmer(const at::Tensor& images, double by) {
  const at::Tensor change = at::tensor({by, -by * 0.299 / 0.587, 0.0}).view({3, 1, 1});
  return (images.to(at::kFloat) + change).clamp_(0, 255).round_().to(at::kByte);
}

at::Tensor grey_copy(const at::Tensor& images) {
  return images.to(at::kFloat)
      .mul(at::tensor({0.299, 0.587, 0.114}).view({3, 1, 1}))
      .sum(1, true)
      .to(at::kByte);
}

at::Tensor compressed(const at::Tensor& images) {
  std::vector<at::Tensor> all;
  for (int64_t i = 0; i < images.size(0); ++i)
    all.push_back(read_image("a", encode_jpeg(rows_of(images[i]), false, kCamera), images.size(2)));
  return at::stack(all);
}

TEST(Fingerprint, FindsChangedPictures) {
  const at::Tensor images = photos(40, 64, 1);
  EXPECT_EQ(share_found(images, compressed(images)), 1);
  EXPECT_EQ(share_found(images, brighter(images, 20)), 1);
  EXPECT_EQ(share_found(images, brighter(images, -20)), 1);
  EXPECT_EQ(share_found(images, fit(images, 32)), 1);
  EXPECT_EQ(share_found(images, grey_copy(images)), 1);
  EXPECT_EQ(share_found(warmer(images, 30), warmer(images, -30)), 0);  // of the same brightness
  EXPECT_GE(share_found(images, photos(40, 64, 1, /*shift=*/1)), 0.95);
}

TEST(Fingerprint, FindsChangedWorldImages) {
  const at::Tensor images = read_images("world:train:100").pixels;
  EXPECT_EQ(share_found(images, compressed(images)), 1);
  EXPECT_EQ(share_found(images, brighter(images, 10)), 1);
}

TEST(Fingerprint, TellsOtherPicturesApart) {
  const auto marks = fingerprints(photos(200, 32, 2));
  const auto drawn = fingerprints(read_images("world:outliers:200").pixels);
  int64_t alike = 0;
  for (size_t i = 0; i < marks.size(); ++i) {
    for (size_t j = 0; j < marks.size(); ++j) {
      alike += i < j && (look_alike(marks[i], marks[j]) || look_alike(drawn[i], drawn[j]));
      alike += look_alike(marks[i], drawn[j]);
    }
  }
  EXPECT_EQ(alike, 0);
}

// Flat pictures have nothing to recognise them by, so only equal pixels count.
TEST(Fingerprint, LeavesFlatPicturesApart) {
  const at::Tensor noise = random_bytes({50, 3, 32, 32}, 3).remainder(4);
  const auto marks = fingerprints(noise + 100);
  for (size_t i = 0; i < marks.size(); ++i) {
    EXPECT_TRUE(marks[i].flat());
    for (size_t j = 0; j < marks.size(); ++j) EXPECT_FALSE(look_alike(marks[i], marks[j]));
  }
  EXPECT_TRUE(same_pixels(marks[0], fingerprints((noise + 100).narrow(0, 0, 1))[0]));
}

// By its definition, in double precision: wave (u, v) is the sum of brightness · cos · cos over the picture.
TEST(Fingerprint, HasTheWavesOfTheBrightness) {
  const at::Tensor image = photos(1, 16, 4);
  const Fingerprint mark = fingerprints(image)[0];
  std::vector<double> waves;
  double square = 0;
  for (int sum = 1; sum <= 10; ++sum) {
    for (int u = 0; u <= sum && waves.size() < 64; ++u) {
      const int v = sum - u;
      double wave = 0;
      for (int y = 0; y < 16; ++y) {
        for (int x = 0; x < 16; ++x) {
          const auto at = [&](int c) { return image[0][c][y][x].item<int>(); };
          const double grey = 0.299 * at(0) + 0.587 * at(1) + 0.114 * at(2);
          wave += grey * std::cos(M_PI * (x + 0.5) * u / 16) * std::cos(M_PI * (y + 0.5) * v / 16);
        }
      }
      wave *= (u > 0 ? std::sqrt(2.0) : 1) * (v > 0 ? std::sqrt(2.0) : 1);
      waves.push_back(wave);
      square += wave * wave;
    }
  }
  for (size_t i = 0; i < waves.size(); ++i) {
    const double expected = 127 * waves[i] / std::sqrt(square);
    EXPECT_NEAR(mark.waves[i], expected, 1.1) << i;
    if (std::abs(expected) > 1.1) {
      EXPECT_EQ(mark.signs >> i & 1, expected > 0) << i;
    }
  }
}

TEST(Fingerprint, TellsShapesApart) {
  const at::Tensor bytes = random_bytes({1, 1, 32, 16}, 5);
  EXPECT_FALSE(same_pixels(fingerprints(bytes)[0], fingerprints(bytes.view({1, 1, 16, 32}))[0]));
}

// A picture of random waves, and one that differs from it a little or much.
Fingerprint random_mark(Stream& stream) {
  Fingerprint mark{stream.bits64(), 0, {}, {}};
  for (size_t i = 0; i < 64; ++i) {
    mark.waves[i] = static_cast<int8_t>(static_cast<int>(stream.below(61)) - 30);
    mark.signs |= uint64_t{mark.waves[i] > 0} << i;
  }
  return mark;
}

Fingerprint changed(Fingerprint mark, uint64_t by, Stream& stream) {
  mark.pixels = stream.bits64();
  mark.signs = 0;
  for (size_t i = 0; i < 64; ++i) {
    mark.waves[i] = static_cast<int8_t>(mark.waves[i] + static_cast<int>(stream.below(2 * by + 1)) -
                                        static_cast<int>(by));
    mark.signs |= uint64_t{mark.waves[i] > 0} << i;
  }
  return mark;
}

struct Counts {
  int64_t exact = 0, near = 0, relabelled = 0;
};

// By looking at every pair.
Counts brute_force(const MarkedSet& set, const MarkedSet& other) {
  const bool inside = &set == &other;
  const auto label = [&](size_t image) { return set.labels.data_ptr<int64_t>()[image]; };
  Counts counts;
  for (size_t i = 0; i < set.marks.size(); ++i) {
    bool exact = false, near = false, relabelled = false;
    for (size_t j = 0; j < other.marks.size(); ++j) {
      if (inside && i == j) continue;
      const bool same = same_pixels(set.marks[i], other.marks[j]);
      const bool alike = !same && look_alike(set.marks[i], other.marks[j]);
      exact = exact || same;
      near = near || alike;
      const bool differ = inside && set.labels.defined() && label(i) != label(j);
      relabelled = relabelled || (differ && (same || alike));
    }
    counts.exact += exact;
    counts.near += near && !exact;
    counts.relabelled += relabelled;
  }
  return counts;
}

void expect_as_brute_force(const std::vector<MarkedSet>& sets) {
  const Duplicates found = find_duplicates(sets, 1000);
  size_t next = 0;
  for (size_t a = 0; a < sets.size(); ++a) {
    for (size_t b = a; b < sets.size(); ++b) {
      const Counts here = brute_force(sets[a], sets[b]), there = brute_force(sets[b], sets[a]);
      if (here.exact + here.near + there.near == 0) continue;
      ASSERT_LT(next, found.overlaps.size());
      const Overlap& overlap = found.overlaps[next++];
      EXPECT_EQ(overlap.set, a);
      EXPECT_EQ(overlap.other, b);
      EXPECT_EQ(overlap.exact.images, here.exact);
      EXPECT_EQ(overlap.exact.others, there.exact);
      EXPECT_EQ(overlap.near.images, here.near);
      EXPECT_EQ(overlap.near.others, there.near);
      EXPECT_EQ(overlap.relabelled.images, here.relabelled);
      const auto mark = [&](size_t set, int64_t image) {
        return sets[set].marks[static_cast<size_t>(image)];
      };
      for (const DuplicatePair& pair : overlap.exact.pairs)
        EXPECT_TRUE(same_pixels(mark(a, pair.image), mark(b, pair.twin)) &&
                    (a != b || pair.image != pair.twin));
      for (const DuplicatePair& pair : overlap.near.pairs)
        EXPECT_TRUE(look_alike(mark(a, pair.image), mark(b, pair.twin)));
      for (const DuplicatePair& pair : overlap.relabelled.pairs)
        EXPECT_NE(sets[a].labels[pair.image].item<int64_t>(), sets[a].labels[pair.twin].item<int64_t>());
      EXPECT_EQ(overlap.exact.pairs.empty(), here.exact == 0);
      EXPECT_EQ(overlap.near.pairs.empty(), here.near + there.near == 0);
      EXPECT_EQ(overlap.relabelled.pairs.empty(), here.relabelled == 0);
    }
  }
  EXPECT_EQ(next, found.overlaps.size());
}

TEST(Duplicates, AgreesWithBruteForce) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    Stream stream(seed, "sets");
    std::vector<MarkedSet> sets(3);
    for (MarkedSet& set : sets) {
      for (int i = 0; i < 150; ++i) set.marks.push_back(random_mark(stream));
    }
    for (int i = 0; i < 200; ++i) {  // some of any set become others of any set, as they are or changed
      const Fingerprint from = sets[stream.below(3)].marks[stream.below(150)];
      const uint64_t by = stream.below(14);
      sets[stream.below(3)].marks[stream.below(150)] = by == 0 ? from : changed(from, by, stream);
    }
    for (size_t k = 0; k < 2; ++k) {
      sets[k].labels = at::empty({150}, at::kLong);
      for (int64_t i = 0; i < 150; ++i)
        sets[k].labels.data_ptr<int64_t>()[i] = static_cast<int64_t>(stream.below(2));
    }
    expect_as_brute_force(sets);
  }
}

// So many are alike that all pairs are compared.
TEST(Duplicates, AgreesWithBruteForceOnVariationsOfOneImage) {
  Stream stream(7, "sets");
  const Fingerprint one = random_mark(stream);
  std::vector<MarkedSet> sets(2);
  for (MarkedSet& set : sets) {
    for (int i = 0; i < 100; ++i) set.marks.push_back(changed(one, 1 + stream.below(12), stream));
  }
  expect_as_brute_force(sets);
}

// Copies are counted in groups: their pairs would be 5·10⁹.
TEST(Duplicates, CountsManyCopiesOfOneImage) {
  Stream stream(8, "sets");
  const std::vector<MarkedSet> sets = {{std::vector<Fingerprint>(100000, random_mark(stream)), {}}};
  const auto start = std::chrono::steady_clock::now();
  const Duplicates found = find_duplicates(sets, 10);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(found.different, std::vector<int64_t>{1});
  ASSERT_EQ(found.overlaps.size(), 1u);
  EXPECT_EQ(found.overlaps[0].exact.images, 100000);
  EXPECT_EQ(found.overlaps[0].exact.pairs.size(), 1u);
  EXPECT_EQ(found.overlaps[0].near.images, 0);
}

TEST(Duplicates, RefusesTooManySets) {
  expect_error([] { find_duplicates(std::vector<MarkedSet>(65), 1); }, {"64 sets", "65"});
}

ImageSet set_of(const at::Tensor& pixels) { return {"set", pixels, {}, {}}; }

TEST(CopyFinder, FindsTheSamePixels) {
  ImageSet pool = set_of(random_bytes({9000, 1, 5, 5}, 9));
  const ImageSet test = set_of(random_bytes({30, 1, 5, 5}, 10));
  const auto put = [&](int64_t image, int64_t row) { pool.pixels[row].copy_(test.pixels[image]); };
  put(17, 8999);
  put(17, 4100);
  put(3, 7000);
  put(25, 12);
  pool.pixels[5000].copy_(test.pixels[9]);
  pool.pixels[5000][0][0][0].add_(1);  // only nearly the same
  const ImageSet other = set_of(pool.pixels.narrow(0, 40, 2).clone());
  std::vector<FoundCopies> found = CopyFinder({&test, &other}).search(pool);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].count, 3);
  EXPECT_EQ(found[0].image, 3);
  EXPECT_EQ(found[0].copy, 7000);
  EXPECT_EQ(found[1].count, 2);
  EXPECT_EQ(found[1].copy, 40);
  leave_out(pool, {12, 4000, 7000});
  found = CopyFinder({&test}).search(pool);
  EXPECT_EQ(found[0].count, 1);
  EXPECT_EQ(found[0].image, 17);
  EXPECT_EQ(found[0].copy, 4098);  // without two of those left out
}

// Black images, each with as many copies: compared pair by pair they would take many seconds.
TEST(CopyFinder, ComparesImagesThatAreTheSameOnce) {
  constexpr int64_t kBlack = 10000;
  const at::Tensor known = random_bytes({kBlack + 3, 1, 8, 8}, 12);
  const at::Tensor pool = random_bytes({kBlack + 2, 1, 8, 8}, 13);
  known.narrow(0, 1, kBlack).zero_();
  pool.narrow(0, 2, kBlack).zero_();
  pool[1].copy_(known[kBlack + 1]);
  const ImageSet test = set_of(known), half = set_of(known.narrow(0, 0, kBlack / 2).clone());
  const auto start = std::chrono::steady_clock::now();
  const std::vector<FoundCopies> found = CopyFinder({&test, &half}).search(set_of(pool));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(found[0].count, kBlack + 1);
  EXPECT_EQ(found[0].image, 1);
  EXPECT_EQ(found[0].copy, 2);
  EXPECT_EQ(found[1].count, kBlack / 2 - 1);
  EXPECT_EQ(found[1].image, 1);
}

TEST(CopyFinder, NeedsImagesOfOneShape) {
  const at::Tensor bytes = random_bytes({4, 1, 6, 6}, 11);
  const ImageSet test = set_of(bytes), points = set_of(bytes.to(at::kFloat));
  const auto copies = [](const ImageSet& set, const at::Tensor& among) {
    return CopyFinder({&set}).search(set_of(among))[0].count;
  };
  EXPECT_EQ(copies(test, bytes.view({4, 1, 4, 9})), 0);
  EXPECT_EQ(copies(test, points.pixels), 0);
  EXPECT_EQ(copies(test, bytes.transpose(2, 3)), 0);
  EXPECT_EQ(copies(test, bytes.transpose(2, 3).contiguous().transpose(2, 3)), 4);  // stored by columns
  EXPECT_EQ(copies(points, points.pixels), 0);
}

}  // namespace
}  // namespace poem

#include "train/leaks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "encode_images.h"
#include "log.h"

namespace poem {
namespace {

ImageSet set_of(const std::string& name, uint64_t seed) {
  return {name, random_bytes({40, 3, 8, 8}, seed), {}, {}};
}

struct Sets {
  ImageSet train = set_of("train", 1), pool = set_of("pool", 2), test = set_of("test", 3),
           ood = set_of("ood", 4);

  std::string warning() const {
    TrainingData training;
    training.id = train;
    training.outliers = Mixture(pool);
    const Log log;
    warn_of_leaks(training, TestData{test, {{"other", ood}}}, "");
    return log.text();
  }
};

TEST(Leaks, AreQuietWithoutCopies) { EXPECT_EQ(Sets().warning(), ""); }

TEST(Leaks, AreCountedInOneLine) {
  Sets sets;
  sets.train.pixels.narrow(0, 5, 2).copy_(sets.test.pixels.narrow(0, 30, 2));
  sets.pool.pixels[7].copy_(sets.ood.pixels[9]);
  const std::string text = sets.warning();
  EXPECT_NE(text.find("[warning] "), text.npos);
  EXPECT_NE(text.find("2 of test in train and 1 of ood in pool (such as 30 = 5)"), text.npos) << text;
  EXPECT_NE(text.find("poem data check"), text.npos);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
}

// ID images among the outliers, with test sets and without.
TEST(Leaks, HiddenIdImagesAreCountedInALineOfTheirOwn) {
  Sets sets;
  sets.pool.pixels.narrow(0, 8, 2).copy_(sets.train.pixels.narrow(0, 20, 2));
  const std::string line =
      "[warning] ID images are also among the outliers: 2 of train in pool (such as 20 = 8). The network "
      "learns "
      "to reject them; poem data check shows them\n";
  EXPECT_EQ(sets.warning(), line);
  TrainingData training;
  training.id = sets.train;
  training.outliers = Mixture(sets.pool);
  const Log log;
  warn_of_leaks(training, std::nullopt, "");
  EXPECT_EQ(log.text(), line);
}

// Whatever pixels: they may be read at another size, or not at all yet. Two parts may have nothing in common.
TEST(Leaks, TrainingImagesThatAreNamedAsOutliersAreNoticed) {
  const auto warned = [](const std::string& train, const std::string& pool) {
    Sets sets;
    sets.train.name = train;
    sets.pool.name = pool;
    const std::string text = sets.warning();
    EXPECT_EQ(text.find("among the outliers: " + pool + " are images of " + train + ".") == text.npos,
              text.empty());
    return !text.empty();
  };
  EXPECT_TRUE(warned("photos", "./photos/"));
  EXPECT_TRUE(warned("photos", "photos#count=9"));
  EXPECT_TRUE(warned("photos#count=9", "photos"));
  EXPECT_TRUE(warned("world:train:40", "world:train"));
  EXPECT_FALSE(warned("world:train:40", "world:train:40:1"));
  EXPECT_FALSE(warned("photos#exclude=a", "photos#exclude=b"));
}

TEST(Leaks, SayWhichImagesAreReadAtAnotherSize) {
  Sets sets;
  sets.pool.pixels = random_bytes({40, 3, 16, 12}, 2);
  const std::string text = sets.warning();
  EXPECT_NE(
      text.find(
          "pool is read at 16×12 pixels and not searched for ID and test images, which are read at 8×8"),
      text.npos)
      << text;
}

// A world that is drawn on demand has no pixels yet: zeros, which a black test image would equal.
TEST(Leaks, LeaveOutWhatIsNotDrawnYet) {
  Sets sets;
  sets.test.pixels[0].zero_();
  TrainingData training;
  training.id = sets.train;
  const auto lazy = std::make_shared<LazyImages>(
      "world:outliers:10", std::vector<int64_t>{10, 3, 8, 8}, std::vector<std::string>{},
      [](const std::vector<int64_t>&, int64_t*) { return at::Tensor(); });
  training.outliers = Mixture({{lazy->images(), 1, lazy}});
  const Log log;
  warn_of_leaks(training, TestData{sets.test, {}}, "");
  EXPECT_EQ(log.text(), "");
}

}  // namespace
}  // namespace poem

#include "train/leaks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

#include "encode_images.h"
#include "images/resize.h"
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

// Smooth pictures, whose small copies look like them.
at::Tensor pictures(int64_t count, int64_t side, uint64_t seed) {
  const at::Tensor coarse = random_bytes({count, 3, 4, 4}, seed).to(at::kFloat);
  return at::upsample_bilinear2d(coarse, {side, side}, false).round().to(at::kByte);
}

// Outliers whose filters need twice the size. Files that are smaller were read as an ID image is, and
// repeated; of those that are larger, the means of rounded means are not the means.
struct TwoSizes : Sets {
  const at::Tensor files = pictures(40, 90, 5);

  TwoSizes() {
    train.pixels = pictures(40, 16, 6);
    test.pixels = pictures(40, 16, 7);
    ood.pixels = pictures(40, 16, 8);
    pool.pixels = pictures(40, 32, 9);
  }
};

TEST(Leaks, AreFoundAmongOutliersThatAreReadAtTwiceTheSize) {
  EXPECT_EQ(TwoSizes().warning(), "");
  TwoSizes sets;
  sets.test.pixels.narrow(0, 4, 3).copy_(fit(sets.files.narrow(0, 0, 3), 16));
  sets.pool.pixels.narrow(0, 9, 3).copy_(fit(sets.files.narrow(0, 0, 3), 32));
  EXPECT_FALSE(fit(sets.pool.pixels.narrow(0, 9, 3), 16).equal(sets.test.pixels.narrow(0, 4, 3)));
  sets.pool.pixels.narrow(0, 20, 2).copy_(fit_or_repeat(sets.train.pixels.narrow(0, 30, 2), 32));
  const std::string text = sets.warning();
  EXPECT_NE(text.find("[warning] images to test with are also trained on: 3 of test look like images in pool "
                      "(such as "),
            text.npos)
      << text;
  EXPECT_NE(text.find("ID images are also among the outliers: 2 of train in pool (such as 30 = 20)"),
            text.npos)
      << text;
}

// A flat image has no look, but its pixels are the same if each is repeated.
TEST(Leaks, RepeatedImagesAreComparedPixelByPixel) {
  TwoSizes sets;
  sets.test.pixels[3].fill_(77);
  sets.ood.pixels[3].fill_(78);
  sets.pool.pixels[8].fill_(77);
  leave_out(sets.pool, {2, 5});  // the others keep their numbers
  const std::string text = sets.warning();
  EXPECT_NE(text.find("trained on: 1 of test in pool (such as 3 = 8)."), text.npos) << text;
}

TEST(Leaks, SayWhichImagesOfAnotherSizeAreTooMany) {
  TwoSizes sets;
  sets.pool.pixels = at::zeros({1, 3, 32, 32}, at::kByte).expand({300000, 3, 32, 32});
  const std::string text = sets.warning();
  EXPECT_EQ(
      text,
      "[warning] pool is read at 32×32 pixels, where 300120 images are too many to compare by their look, "
      "and is not searched for ID and test images; poem data check does that\n");
}

// Outliers that are in memory already need no more of it to be searched.
TEST(Leaks, AreFoundInMoreMemoryThanIsFree) {
  Sets sets;
  sets.train.pixels = random_bytes({2, 3, 1024, 1024}, 1);
  sets.test.pixels = random_bytes({2, 3, 1024, 1024}, 2);
  sets.pool.name = "world:outliers:150";
  sets.pool.pixels = at::zeros({150, 3, 1024, 1024}, at::kByte);
  sets.pool.pixels[7].copy_(sets.test.pixels[1]);
  struct rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  struct rlimit tight = before;
  tight.rlim_cur = pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE)) + sets.pool.pixels.nbytes() / 2;
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &tight), 0);
  const std::string text = sets.warning();
  ::setrlimit(RLIMIT_AS, &before);
  EXPECT_NE(text.find("1 of test in world:outliers:150 (such as 1 = 7)"), text.npos) << text;
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

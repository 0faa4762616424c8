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
    warn_of_leaks(training, {test, {{"other", ood}}});
    return log.text();
  }
};

TEST(Leaks, AreQuietWithoutCopies) { EXPECT_EQ(Sets().warning(), ""); }

TEST(Leaks, AreCountedInOneLine) {
  Sets sets;
  sets.train.pixels.narrow(0, 5, 2).copy_(sets.test.pixels.narrow(0, 30, 2));
  sets.pool.pixels[7].copy_(sets.ood.pixels[9]);
  sets.pool.pixels[8].copy_(sets.train.pixels[20]);  // not tested with
  const std::string text = sets.warning();
  EXPECT_NE(text.find("[warning] "), text.npos);
  EXPECT_NE(text.find("2 of test in train and 1 of ood in pool (such as 30 = 5)"), text.npos) << text;
  EXPECT_NE(text.find("poem data check"), text.npos);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
}

TEST(Leaks, SayWhichImagesAreReadAtAnotherSize) {
  Sets sets;
  sets.pool.pixels = random_bytes({40, 3, 16, 12}, 2);
  const std::string text = sets.warning();
  EXPECT_NE(text.find("pool is read at 16×12 pixels and not searched for test images, which are read at 8×8"),
            text.npos)
      << text;
}

// A world that is drawn on demand has no pixels yet: zeros, which a black test image would equal.
TEST(Leaks, LeaveOutWhatIsNotDrawnYet) {
  Sets sets;
  sets.test.pixels[0].zero_();
  TrainingData training;
  training.id = sets.train;
  const auto lazy =
      std::make_shared<LazyImages>("world", std::vector<int64_t>{10, 3, 8, 8}, std::vector<std::string>{},
                                   [](const std::vector<int64_t>&, int64_t*) { return at::Tensor(); });
  training.outliers = Mixture({{lazy->images(), 1, lazy}});
  const Log log;
  warn_of_leaks(training, {sets.test, {}});
  EXPECT_EQ(log.text(), "");
}

}  // namespace
}  // namespace poem

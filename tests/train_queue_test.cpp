#include "train/queue.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "poem/random.h"
#include "temporary_folder.h"

namespace poem {
namespace {

constexpr int64_t kFeatures = 4;
constexpr int64_t kIds = 2100, kMined = 70, kOutliers = 500;  // more ID rows than the queue takes at a time

// Features of a crop made up from its image, its seed and the state of a "network", which changes over time.
std::vector<double> made_up(const Crop& crop, Side side, int64_t network) {
  Stream stream(static_cast<uint64_t>(network), side == Side::kId ? "id" : "outlier", crop.image,
                crop.seed % 997);
  std::vector<double> row(kFeatures);
  for (double& x : row) x = static_cast<float>(stream.normal());
  return row;
}

FeatureWalks walks(const int64_t& network) {
  const auto of = [&network](Side side) {
    return [&network, side](const std::vector<Crop>& crops, const FeatureVisit& visit) {
      constexpr size_t kBlock = 7;
      for (size_t first = 0; first < crops.size(); first += kBlock) {
        std::vector<float> values;
        for (size_t i = first; i < std::min(crops.size(), first + kBlock); ++i) {
          for (double x : made_up(crops[i], side, network)) values.push_back(static_cast<float>(x));
        }
        visit(static_cast<int64_t>(first), at::tensor(values).view({-1, kFeatures}));
      }
    };
  };
  return {of(Side::kId), of(Side::kOutlier)};
}

// ΦΦᵀ, Φy and the count by plain loops.
struct Sums {
  double gram[kFeatures][kFeatures] = {}, moment[kFeatures] = {}, count = 0;
  void add(const std::vector<double>& row, double target, double weight) {
    for (int64_t i = 0; i < kFeatures; ++i) {
      moment[i] += target * row[i];
      for (int64_t j = 0; j < kFeatures; ++j) gram[i][j] += weight * row[i] * row[j];
    }
    count += weight;
  }
  void expect_equal(const Statistics& statistics) const {
    EXPECT_EQ(statistics.count, count);
    for (int64_t i = 0; i < kFeatures; ++i) {
      EXPECT_NEAR(statistics.moment[i].item<double>(), moment[i], 1e-6 * std::max(1.0, std::abs(moment[i])));
      for (int64_t j = 0; j <= i; ++j) {
        EXPECT_NEAR(statistics.gram[i][j].item<double>(), gram[i][j],
                    1e-6 * std::max(1.0, std::abs(gram[i][j])));
      }
    }
  }
};

class QueueTest : public testing::Test {
 protected:
  QueueTest() {
    config_.seed = 9;
    for (int64_t row = 0; row < kIds; ++row) data_.train_rows.push_back(row);
  }

  std::vector<Crop> mined(int64_t epoch) const {
    std::vector<Crop> crops;
    Stream stream(1, "mined", epoch);
    for (int64_t i = 0; i < kMined; ++i)
      crops.push_back({static_cast<int64_t>(stream.below(kOutliers)), stream.bits64()});
    return crops;
  }
  // The network moves on before each epoch's end: its state is the number of the epoch.
  void push_epochs(Queue& queue, int64_t first, int64_t count) {
    for (network_ = first; network_ < first + count; ++network_) {
      queue.push(network_, id_crops(data_, config_.seed, network_), mined(network_), walks(network_));
    }
    --network_;
  }
  double target(int64_t epoch, Side side, int64_t row, int64_t weight) const {
    return target_logits(config_.posterior, config_.seed, epoch, side, row, 1, weight).item<double>();
  }
  void add_epoch(Sums& sums, int64_t epoch, Side side, int64_t network, int64_t weight) const {
    const auto crops = side == Side::kId ? id_crops(data_, config_.seed, epoch) : mined(epoch);
    for (size_t i = 0; i < crops.size(); ++i) {
      sums.add(made_up(crops[i], side, network), target(epoch, side, i, weight), static_cast<double>(weight));
    }
  }

  Config config_;
  TrainingData data_;
  int64_t network_ = 0;
};

TEST_F(QueueTest, EmptyItHoldsNothing) {
  for (const QueueFeatures features : {QueueFeatures::kStored, QueueFeatures::kFresh}) {
    config_.queue.features = features;
    const Statistics statistics = Queue(config_, kFeatures).statistics(data_, walks(network_));
    EXPECT_EQ(statistics.count, 0);
    EXPECT_EQ(statistics.gram.abs().sum().item<double>(), 0);
    EXPECT_EQ(statistics.moment.abs().sum().item<double>(), 0);
  }
}

TEST_F(QueueTest, StoredKeepsTheLastFourEpochsAsTheyWere) {
  for (const TargetNoise noise : {TargetNoise::kIid, TargetNoise::kSingle}) {
    config_.posterior.target_noise = noise;
    for (const int64_t epochs : {1, 3, 4, 6}) {
      Queue queue(config_, kFeatures);
      push_epochs(queue, 0, epochs);
      Sums sums;
      for (int64_t epoch = std::max<int64_t>(0, epochs - 4); epoch < epochs; ++epoch) {
        add_epoch(sums, epoch, Side::kId, epoch, 1);
        add_epoch(sums, epoch, Side::kOutlier, epoch, 1);
      }
      network_ = 100;  // later networks do not matter
      sums.expect_equal(queue.statistics(data_, walks(network_)));
    }
  }
}

TEST_F(QueueTest, FreshTakesAllFeaturesAnew) {
  config_.queue.features = QueueFeatures::kFresh;
  for (const int64_t epochs : {1, 3, 4, 6}) {
    Queue queue(config_, kFeatures);
    push_epochs(queue, 0, epochs);
    network_ = 100;
    const int64_t held = std::min<int64_t>(epochs, 4);
    Sums sums;
    for (int64_t epoch = epochs - held; epoch < epochs; ++epoch)
      add_epoch(sums, epoch, Side::kOutlier, 100, 1);
    add_epoch(sums, epochs - 1, Side::kId, 100, held);  // ID rows count as often as there are epochs
    sums.expect_equal(queue.statistics(data_, walks(network_)));
  }
}

TEST_F(QueueTest, FreshSumsTheTargetsOfRepeats) {
  config_.queue.features = QueueFeatures::kFresh;
  config_.posterior.noise_variance = 1e-30;  // targets without noise to speak of
  Queue queue(config_, kFeatures);
  push_epochs(queue, 0, 3);
  Sums sums;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    for (const Crop& crop : mined(epoch)) sums.add(made_up(crop, Side::kOutlier, network_), 3, 1);
  }
  for (const Crop& crop : id_crops(data_, config_.seed, 2))
    sums.add(made_up(crop, Side::kId, network_), -9, 3);
  sums.expect_equal(queue.statistics(data_, walks(network_)));
}

TEST_F(QueueTest, OneEpochIsTheLeastItHolds) {
  config_.queue.epochs = 1;
  Queue queue(config_, kFeatures);
  push_epochs(queue, 0, 3);
  Sums sums;
  add_epoch(sums, 2, Side::kId, 2, 1);
  add_epoch(sums, 2, Side::kOutlier, 2, 1);
  sums.expect_equal(queue.statistics(data_, walks(network_)));
}

TEST_F(QueueTest, GoesOnFromAFileAsIfNothingHappened) {
  TemporaryFolder folder;
  for (const QueueFeatures features : {QueueFeatures::kStored, QueueFeatures::kFresh}) {
    config_.queue.features = features;
    Queue whole(config_, kFeatures);
    push_epochs(whole, 0, 3);
    TensorFile file;
    whole.store(file);
    write_safetensors(folder / "f", file);
    Queue resumed(config_, kFeatures);
    push_epochs(resumed, 50, 2);  // what it held before is forgotten
    resumed.load(read_safetensors(folder / "f"), kOutliers);
    for (const int64_t more : {0, 1, 2}) {
      push_epochs(whole, 3 + more, 1);
      push_epochs(resumed, 3 + more, 1);
      const Statistics a = whole.statistics(data_, walks(network_)),
                       b = resumed.statistics(data_, walks(network_));
      EXPECT_TRUE(a.gram.equal(b.gram));
      EXPECT_TRUE(a.moment.equal(b.moment));
      EXPECT_EQ(a.count, b.count);
    }
  }
}

}  // namespace
}  // namespace poem

#include "train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/interrupts.h"
#include "expect_error.h"
#include "images/pool.h"
#include "poem/evaluate.h"
#include "release_interrupts.h"
#include "small_training.h"
#include "temporary_folder.h"
#include "train/epoch_report.h"

namespace poem {
namespace {

const c10::Device kCpu(c10::kCPU);

Config image_config() {
  Config config = small_training();
  config.train.epochs = 3;
  config.queue.epochs = 2;
  return config;
}

// Points instead of images, for what needs many steps.
Config point_config() {
  Config config;
  config.data.train = "world2d:train:300";
  config.data.outliers = {"world2d:outliers:2000"};
  config.data.size = 1;
  config.network.name = "mlp";
  config.network.mean = {0, 0};
  config.network.std = {2, 2};
  config.mining.pool = 1000;
  config.train.epochs = 3;
  config.train.learning_rate = 0.01;
  return config;
}

const TrainingData& point_data() {
  static const TrainingData data = load_training_data(point_config());
  return data;
}

// The state of a trainer after a trip through a file: tensors of its own, not the network's.
TensorFile state(const Trainer& trainer) {
  TemporaryFolder folder;
  TensorFile file;
  trainer.store(file);
  write_safetensors(folder / "state", file);
  return read_safetensors(folder / "state");
}

void expect_same_bits(const TensorFile& a, const TensorFile& b, const std::string& prefix = "") {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors) {
    if (name == "seconds" || name.rfind(prefix, 0) != 0) continue;  // time is the one thing that may differ
    const at::Tensor& other = b.tensor(name);
    ASSERT_EQ(tensor.sizes(), other.sizes()) << name;
    EXPECT_EQ(std::memcmp(tensor.data_ptr(), other.data_ptr(), tensor.nbytes()), 0) << name;
  }
}

bool same(const std::vector<Crop>& a, const std::vector<Crop>& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](const Crop& x, const Crop& y) {
           return x.image == y.image && x.seed == y.seed;
         });
}

// An epoch's figures without its times.
nlohmann::json timeless(const EpochReport& report) {
  nlohmann::json json = to_json(report);
  json.erase("seconds");
  return json;
}

std::vector<nlohmann::json> train(Trainer& trainer) {
  std::vector<nlohmann::json> reports;
  while (!trainer.done()) reports.push_back(timeless(trainer.run_epoch()));
  return reports;
}

struct Training {
  explicit Training(const Config& config, const TrainingData& data) : trainer(config, data, kCpu) {
    while (!trainer.done()) {
      reports.push_back(trainer.run_epoch());
      mined.push_back(load_crops(state(trainer), "mined", data.outliers.size()));
    }
  }
  Trainer trainer;
  std::vector<EpochReport> reports;
  std::vector<std::vector<Crop>> mined;  // the set of every epoch
};

// By hand: image i is of the first source if i < 150.
TEST(Trainer, TellsTheSharesOfSeveralSources) {
  Config config = image_config();
  config.train.epochs = 1;
  config.data.outliers = {"world:outliers:150", "world:digits:90#share=0.3"};
  const TrainingData data = load_training_data(config);
  const Training training(config, data);
  const MiningDiagnostics& mining = *training.reports[0].mining;
  double mined = 0;
  for (const Crop& crop : training.mined[0]) mined += crop.image >= 150;
  ASSERT_EQ(mining.sources.size(), 2u);
  EXPECT_EQ(mining.sources[0].name, "world:outliers:150");
  EXPECT_EQ(mining.sources[1].name, "world:digits:90");
  EXPECT_NEAR(mining.sources[1].pool, 0.3, 1e-9);  // 36 of 120
  EXPECT_NEAR(mining.sources[1].mined, mined / static_cast<double>(training.mined[0].size()), 1e-9);
  const auto json = to_json(mining);
  EXPECT_EQ(json["sources"][1]["name"], "world:digits:90");
  EXPECT_EQ(diagnostics_from(json).sources[1].mined, mining.sources[1].mined);
  EXPECT_NE(figures_text(training.reports[0]).find("mined from world:outliers:150 "), std::string::npos);
  const Training one(image_config(), small_training_data());
  EXPECT_FALSE(to_json(*one.reports[0].mining).contains("sources"));
}

// The random miner looks at no image of the pool. Its classes are counted on 10,000 of them.
TEST(Trainer, RandomOutliersDoNotDrawAWholeWorld) {
  Config config = image_config();
  config.train.epochs = 1;
  config.mining.miner = "random";
  config.data.outliers = {"world:outliers:1000000"};
  config.mining.pool = 400000;
  const TrainingData data = load_training_data(config);
  const Training training(config, data);
  const auto mined = static_cast<int64_t>(training.mined[0].size());
  EXPECT_LE(data.outliers.parts()[0].lazy->made(), 10000 + mined + 1);
  double pool = 0, share = 0;
  for (const ClassShare& family : training.reports[0].mining->classes) {
    pool += family.pool;
    share += family.mined;
    EXPECT_NEAR(family.pool, 1.0 / 24, 5 * std::sqrt(1.0 / 24 / 10000));  // five standard errors
  }
  EXPECT_NEAR(pool, 1, 1e-9);
  EXPECT_NEAR(share, 1, 1e-9);
}

TEST(Trainer, TheSameConfigGivesTheSameBits) {
  Config config = image_config();
  config.train.epochs = 2;
  const Training a(config, small_training_data()), b(config, small_training_data());
  expect_same_bits(state(a.trainer), state(b.trainer));
  config.seed = 4;
  const Training other(config, small_training_data());
  EXPECT_FALSE(state(a.trainer)
                   .tensor("network.linear.weight")
                   .equal(state(other.trainer).tensor("network.linear.weight")));
}

class StoppedQueue : public testing::TestWithParam<QueueFeatures> {};

// Stopped after every batch: each trainer trains one batch, and a fresh one takes over from the file. Its
// images are read anew, too, so that none of a drawn world are there.
void expect_same_if_stopped(const Config& config) {
  const TrainingData data = load_training_data(config);
  Trainer whole(config, data, kCpu);
  const std::vector<nlohmann::json> expected = train(whole);

  std::vector<nlohmann::json> reports;
  TensorFile last;
  bool done = false;
  int runs = 0;
  for (; !done && runs < 20; ++runs) {
    const TrainingData again = load_training_data(config);
    Trainer trainer(config, again, kCpu);
    if (runs > 0) trainer.load(last);
    try {
      reports.push_back(timeless(trainer.run_epoch([] { return true; })));
      EXPECT_FALSE(trainer.in_epoch());
    } catch (const Interrupted&) {
      EXPECT_TRUE(trainer.in_epoch());
    }
    last = state(trainer);
    done = trainer.done();
  }
  EXPECT_EQ(runs, 9);  // 91 training images: 3 batches, 3 epochs
  expect_same_bits(state(whole), last);
  EXPECT_EQ(expected, reports);
}

TEST_P(StoppedQueue, AfterEveryBatchTheResultIsTheSame) {
  Config config = image_config();
  config.queue.features = GetParam();
  expect_same_if_stopped(config);
  config.data.outliers = {"world:outliers:1000000", "world:digits:50#share=0.25"};
  expect_same_if_stopped(config);
}

INSTANTIATE_TEST_SUITE_P(Queues, StoppedQueue,
                         testing::Values(QueueFeatures::kStored, QueueFeatures::kFresh));

// The signal comes with the last batch of an epoch, whose features would take minutes to be queued.
TEST(Trainer, ASignalBehindTheLastBatchEndsTheEpochThere) {
  const Config config = image_config();
  Trainer whole(config, small_training_data(), kCpu);
  const std::vector<nlohmann::json> expected = train(whole);

  Trainer cut(config, small_training_data(), kCpu);
  int batches = 0;
  catch_interrupts();
  EXPECT_THROW(cut.run_epoch([&] {
    if (++batches == 3) std::raise(SIGTERM);  // 91 training images: 3 batches
    return false;
  }),
               Interrupted);
  release_interrupts();
  EXPECT_EQ(batches, 3);
  Trainer resumed(config, small_training_data(), kCpu);
  resumed.load(state(cut));
  EXPECT_EQ(resumed.epoch(), 0);
  EXPECT_EQ(resumed.begun(), 1);
  EXPECT_EQ(expected, train(resumed));
  expect_same_bits(state(whole), state(resumed));
}

TEST(Trainer, CtrlCEndsTheTakingOfFreshFeatures) {
  Config config = point_config();
  config.queue.features = QueueFeatures::kFresh;
  Trainer trainer(config, point_data(), kCpu);
  train(trainer);
  EXPECT_NO_THROW(trainer.posterior());
  catch_interrupts();
  std::raise(SIGINT);
  EXPECT_THROW(trainer.posterior(), Interrupted);
  release_interrupts();
}

TEST(Trainer, BatchNormSeesIdImagesAndOutliersTogether) {
  Config config = image_config();
  config.train.epochs = 1;
  config.train.batch = config.train.outlier_batch = 100;  // one step with all images
  const TrainingData& data = small_training_data();
  const Training run(config, data);
  const std::vector<Crop> id = id_crops(data, config.seed, 0), &mined = run.mined.front();
  ASSERT_EQ(mined.size(), id.size());

  const NetworkSpec spec = run.trainer.network()->spec();
  const at::Tensor id_images = cut(data.id, id.data(), id.size(), data.id_cut),
                   outliers = cut(data.outliers, mined.data(), mined.size(), data.outlier_cut);
  const auto buffers_after = [&](const std::vector<at::Tensor>& batches) {
    const at::NoGradGuard no_grad;
    const auto network = make_network(spec, config.seed);
    for (const at::Tensor& batch : batches) network->features(batch);
    return network->buffers();
  };
  // 50 batches of ID images before the first scoring, then the step itself.
  std::vector<at::Tensor> mixed(50, id_images), separate(50, id_images);
  mixed.push_back(at::cat({id_images, outliers}));
  separate.push_back(id_images);
  separate.push_back(outliers);
  const auto expected = buffers_after(mixed), apart = buffers_after(separate);
  const auto actual = run.trainer.network()->buffers();
  ASSERT_FALSE(actual.empty());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::allclose(actual[i].second, expected[i].second, 1e-3, 1e-4)) << actual[i].first;
    EXPECT_FALSE(at::allclose(actual[i].second, apart[i].second, 1e-3, 1e-4)) << actual[i].first;
  }
}

TEST(Trainer, ReportsTheFiguresOfItsOnlyStep) {
  Config config = point_config();
  config.train.epochs = 1;
  config.train.batch = 400;  // one step an epoch: all figures are those of the first weights
  config.train.outlier_batch = 200;
  const TrainingData& data = point_data();
  const Training run(config, data);
  const auto network = make_network(run.trainer.network()->spec(), config.seed);
  const std::vector<Crop> id = id_crops(data, config.seed, 0), &mined = run.mined.front();
  EXPECT_EQ(mined.size(), id.size() / 2);
  const auto logits = [&](const Mixture& images, const std::vector<Crop>& crops, const Augmentation& how) {
    const at::NoGradGuard no_grad;
    return network->logits(network->features(cut(images, crops.data(), crops.size(), how)));
  };
  const at::Tensor id_logits = logits(data.id, id, data.id_cut),
                   outlier_logits = logits(data.outliers, mined, data.outlier_cut);
  std::vector<int64_t> rows;
  for (const Crop& crop : id) rows.push_back(crop.image);
  const at::Tensor labels = data.id.labels.index_select(0, at::tensor(rows, at::kLong));
  const Loss loss = (*make_objective(config.objective))(id_logits, labels, outlier_logits, {});
  const EpochReport& r = run.reports.front();
  EXPECT_NEAR(r.loss, loss.total.item<double>(), 1e-3);
  EXPECT_NEAR(r.classification_loss, loss.classification.item<double>(), 1e-4);
  EXPECT_NEAR(r.regularisation, loss.regularisation.item<double>(), 1e-2);
  EXPECT_NEAR(r.id_energy, energy(id_logits).mean().item<double>(), 1e-4);
  EXPECT_NEAR(*r.outlier_energy, energy(outlier_logits).mean().item<double>(), 1e-4);
  EXPECT_NEAR(*r.train_accuracy, (id_logits.argmax(1) == labels).to(at::kDouble).mean().item<double>(), 1e-9);
  EXPECT_EQ(r.epoch, 1);
}

TEST(Trainer, ReportsTheRateOfTheEpochsLastStep) {
  Config config = point_config();
  config.train.epochs = 2;
  config.train.milestones = {0.5};
  const Training run(config, point_data());
  EXPECT_DOUBLE_EQ(run.reports[0].learning_rate, 0.01);
  EXPECT_DOUBLE_EQ(run.reports[1].learning_rate, 0.001);
}

TEST(Trainer, AfterUntilTheLastMinedSetStays) {
  Config config = point_config();
  config.train.epochs = 4;
  config.mining.until = 2;
  const Training run(config, point_data());
  ASSERT_EQ(run.mined.size(), 4u);
  EXPECT_FALSE(same(run.mined[0], run.mined[1]));
  EXPECT_TRUE(same(run.mined[1], run.mined[2]));
  EXPECT_TRUE(same(run.mined[1], run.mined[3]));
  EXPECT_TRUE(run.reports[0].mining && run.reports[1].mining);
  EXPECT_FALSE(run.reports[2].mining || run.reports[3].mining);
  EXPECT_TRUE(run.reports[3].outlier_energy);  // it is still trained on
  EXPECT_EQ(state(run.trainer).tensor("queue.epochs").numel(), 1);
}

TEST(Trainer, TheFirstEpochMayChooseAtRandom) {
  Config config = point_config();
  config.mining.first = FirstChoice::kRandom;
  const Training run(config, point_data());
  const auto n = static_cast<int64_t>(run.mined[0].size());
  EXPECT_EQ(n, static_cast<int64_t>(point_data().train_rows.size()));
  MiningTask task;
  task.pool = draw_pool(2000, 1000, config.seed, 0);
  task.settings.select = n;
  task.seed = static_cast<uint64_t>(config.seed);
  const Mined random = mine(*make_miner("random"), task, {});
  EXPECT_TRUE(same(run.mined[0], random.crops));
  EXPECT_FALSE(run.reports[0].mining->spread);
  EXPECT_TRUE(run.reports[1].mining->spread);
  config.mining.first = FirstChoice::kMiner;
  EXPECT_TRUE(Training(config, point_data()).reports[0].mining->spread);
}

TEST(Trainer, MinersOfOneSeedStartAlikeAndSeeIdImagesInTheSameOrder) {
  // With cross-entropy and no BatchNorm outliers do not matter, so equal ID batches give equal weights.
  Config config = point_config();
  config.objective.name = "cross_entropy";
  std::vector<TensorFile> first, last;
  for (const char* miner : {"none", "random", "thompson"}) {
    config.mining.miner = miner;
    first.push_back(state(Trainer(config, point_data(), kCpu)));
    last.push_back(state(Training(config, point_data()).trainer));
  }
  for (const size_t i : {1u, 2u}) {
    expect_same_bits(first[0], first[i], "network.");
    for (const auto& [name, tensor] : last[0].tensors) {
      if (name.rfind("network.", 0) != 0) continue;
      EXPECT_TRUE(at::allclose(tensor, last[i].tensor(name), 1e-4, 1e-5)) << name;
      EXPECT_FALSE(name.find("weight") != std::string::npos && tensor.equal(first[0].tensor(name))) << name;
    }
  }
}

TEST(Trainer, AskingForMoreThanThePoolIsAnError) {
  Config config = point_config();
  config.mining.pool = 100;
  expect_error([&] { Training(config, point_data()); }, {"240 outliers", "only 100", "mining.pool"});
}

TEST(Trainer, ALossThatIsNotFiniteIsAnError) {
  Config config = point_config();
  config.train.learning_rate = 1000;
  expect_error([&] { Training(config, point_data()); }, {"epoch", "not finite", "train.learning_rate"});
}

TEST(Trainer, PoemSolvesTheTwoDimensionalWorld) {
  Config config = point_config();
  config.train.epochs = 120;
  config.train.schedule = Schedule::kCosine;
  const Training run(config, point_data());
  EXPECT_GT(*run.reports.back().train_accuracy, 0.97);
  EXPECT_LT(run.reports.back().id_energy + 10, *run.reports.back().outlier_energy);
  EXPECT_LT(*run.reports.back().mining->mined_abs_logit, 0.8 * *run.reports.back().mining->pool_abs_logit);

  const Detector detector{run.trainer.network(), make_score("energy"), std::nullopt,
                          point_data().id.class_names, 1};
  const TestData test = load_test_data("world2d:test:500", {"ood=world2d:ood:500"}, {1});
  const Results results = evaluate(detector, "energy", test);
  EXPECT_GT(*results.id_accuracy, 0.97);
  EXPECT_GT(results.mean.auroc, 0.98);
}

TEST(Trainer, Bf16WithoutAGpuIsAnError) {
  Config config = image_config();
  config.train.precision = Precision::kBf16;
  expect_error([&] { Trainer(config, small_training_data(), kCpu); }, {"train.precision", "float32"});
}

}  // namespace
}  // namespace poem

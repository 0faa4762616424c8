#include "study/toy.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/file.h"
#include "core/npy.h"
#include "images/pool.h"
#include "poem/detector.h"
#include "poem/random.h"
#include "report/toy_report.h"
#include "temporary_folder.h"
#include "train/trainer.h"
#include "world/world.h"

namespace poem {
namespace {

// The toy on few points.
Config small_config() {
  Config config = toy_config(3);
  config.data.train = "world2d:train:120:3";
  config.data.outliers = {"world2d:outliers:400:3"};
  config.mining.pool = 250;
  config.mining.select = 40;
  config.train.epochs = 4;
  return config;
}

const Toy& small_toy() {
  static const Toy toy = run_toy(small_config(), at::kCPU);
  return toy;
}

// A training of the same config, to look inside; `report` is called after each epoch.
void train_again(const std::function<void(const Trainer&, const TrainingData&)>& report) {
  const TrainingData data = load_training_data(small_config());
  Trainer trainer(small_config(), data, at::kCPU);
  report(trainer, data);
  while (!trainer.done()) {
    trainer.run_epoch();
    report(trainer, data);
  }
}

const at::Tensor& points_of(const TrainingData& data) { return data.outliers.parts()[0].images.pixels; }

// The pool's N points nearest to f = 0 for the epoch's draw of w, by sorting all of them.
at::Tensor nearest_to_boundary(const Trainer& trainer, const TrainingData& data, int64_t epoch) {
  const at::NoGradGuard no_grad;
  const Config& config = trainer.config();
  Stream stream(config.seed, "weights", epoch);
  const at::Tensor w = trainer.posterior().draw(stream).to(at::kFloat);
  std::vector<std::pair<float, int64_t>> order;
  for (const Crop& crop : draw_pool(data.outliers, config.mining.pool, config.seed, epoch)) {
    const at::Tensor features = trainer.network()->features(points_of(data).narrow(0, crop.image, 1));
    order.emplace_back(std::abs(features.mv(w).item<float>()), crop.image);
  }
  std::sort(order.begin(), order.end());
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < config.mining.select; ++i) rows.push_back(order[i].second);
  std::sort(rows.begin(), rows.end());
  return points_of(data).view({-1, 2}).index_select(0, at::tensor(rows, at::kLong));
}

TEST(Toy, MinedPointsAreTheNearestToTheBoundary) {
  std::vector<at::Tensor> expected;
  train_again([&](const Trainer& trainer, const TrainingData& data) {
    expected.push_back(nearest_to_boundary(trainer, data, static_cast<int64_t>(expected.size())));
  });
  ASSERT_EQ(small_toy().epochs.size(), 4u);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(at::equal(small_toy().epochs[i].mined, expected[i])) << i;
}

TEST(Toy, FieldsAreThoseOfTheNetwork) {
  const Toy& toy = small_toy();  // trained here, outside of the guards below
  const at::Tensor grid = toy_grid();
  size_t epoch = 0;  // complete ones
  train_again([&](const Trainer& trainer, const TrainingData& data) {
    const at::NoGradGuard no_grad;
    for (int64_t cell : {int64_t{0}, int64_t{kToySide - 1}, int64_t{kToySide * 31 + 17}, grid.size(0) - 1}) {
      const at::Tensor features = trainer.network()->features(grid.narrow(0, cell, 1).view({1, 2, 1, 1}));
      if (epoch > 0) {
        EXPECT_NEAR(toy.epochs[epoch - 1].grid_score[cell].item<float>(),
                    trainer.network()->logits(features).exp().sum().log().item<float>(), 1e-4);
      }
      if (epoch < 4) {
        const double logit = features.to(at::kDouble).mv(trainer.posterior().mean()).item<double>();
        EXPECT_NEAR(toy.epochs[epoch].grid_logit[cell].item<double>(), logit, 1e-3);
      }
    }
    if (epoch > 0) {  // 95 % of the held-out ID points, here 29 of 30, lie in the region of ID
      const ImageSet held_out = subset(data.id, data.validation_rows);
      const at::Tensor scores =
          trainer.network()->logits(trainer.network()->features(held_out.pixels)).logsumexp(1);
      EXPECT_EQ((scores >= toy.epochs[epoch - 1].threshold - 1e-5).sum().item<int64_t>(), 29);
    }
    ++epoch;
  });
  EXPECT_EQ(epoch, 5u);
}

TEST(Toy, TheFirstBeliefIsThePriors) {
  EXPECT_EQ(small_toy().epochs.front().grid_logit.abs().max().item<float>(), 0);
  EXPECT_GT(small_toy().epochs[1].grid_logit.abs().max().item<float>(), 0);
}

TEST(Toy, GridFillsTheSquareRowByRow) {
  const at::Tensor grid = toy_grid();
  const double step = 2 * kToyReach / kToySide;
  ASSERT_EQ(grid.sizes(), at::IntArrayRef({kToySide * kToySide, 2}));
  EXPECT_NEAR(grid[0][0].item<double>(), -kToyReach + step / 2, 1e-5);
  EXPECT_NEAR(grid[1][0].item<double>() - grid[0][0].item<double>(), step, 1e-5);
  EXPECT_NEAR(grid[kToySide][1].item<double>() - grid[0][1].item<double>(), step, 1e-5);
  EXPECT_NEAR(grid.sum().item<double>(), 0, 1e-2);
}

TEST(Toy, FilesHoldWhatWasMeasured) {
  TemporaryFolder folder;
  write_toy(small_toy(), folder.path());
  const Toy& toy = small_toy();
  const at::Tensor mined = read_npy(folder / "mined.npy"), scores = read_npy(folder / "scores.npy");
  EXPECT_EQ(mined.sizes(), at::IntArrayRef({4, 40, 2}));
  EXPECT_TRUE(at::equal(mined[2], toy.epochs[2].mined));
  EXPECT_EQ(scores.sizes(), at::IntArrayRef({4, kToySide, kToySide}));
  EXPECT_TRUE(at::equal(scores[3].flatten(), toy.epochs[3].grid_score));
  EXPECT_TRUE(at::equal(read_npy(folder / "logits.npy")[1].flatten(), toy.epochs[1].grid_logit));
  EXPECT_TRUE(at::equal(read_npy(folder / "max_softmax.npy").flatten(), toy.max_softmax));
  EXPECT_TRUE(at::equal(read_npy(folder / "outliers.npy"), toy.outliers));
  const std::string csv = read_file(folder / "boundary.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 401);
  const Config config = read_config(folder / "toy.yaml", {});  // poem train takes it
  EXPECT_EQ(to_yaml(config), to_yaml(small_config()));
}

TEST(World2d, DensityIntegratesToOneAndPeaksAtTheMeans) {
  double sum = 0;
  constexpr double kStep = 0.05;
  for (double x = -6; x < 6; x += kStep) {
    for (double y = -6; y < 6; y += kStep) sum += world_2d_density(x, y) * kStep * kStep;
  }
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_NEAR(world_2d_density(0, 2), 1 / (3 * 2 * M_PI * 0.16), 1e-6);
  EXPECT_GT(world_2d_density(0, 2), world_2d_density(0.1, 2));
}

}  // namespace
}  // namespace poem

// The parts of examples/extending compute what they say, and what is registered is used like poem's own.
#define main extending_main
#include "../examples/extending/main.cpp"
#undef main

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/file.h"
#include "core/safetensors.h"
#include "expect_error.h"
#include "temporary_folder.h"
#include "train/config_keys.h"

namespace poem {
namespace {

TEST(ExtendingExample, TrainsOnLogitsOfFixedLength) {
  ObjectiveSettings settings;
  settings.temperature = 0.5;
  settings.beta = 2;
  const at::Tensor id = at::tensor({3.0, 4.0, 0.0, 0.0, -6.0, 8.0}, at::kDouble).view({2, 3});
  const at::Tensor outliers = at::tensor({0.0, 0.0, 5.0}, at::kDouble).view({1, 3});
  const Loss loss = FixedLength(settings)(id, at::tensor({0, 2}, at::kLong), outliers, {});
  const double first = std::log(std::exp(1.2) + std::exp(1.6) + 1) - 1.2;
  const double second = std::log(1 + std::exp(-1.2) + std::exp(1.6)) - 1.6;
  const double outlier = std::log(2 + std::exp(2.0)) - 2.0 / 3;
  EXPECT_NEAR(loss.classification.item<double>(), (first + second) / 2, 1e-12);
  EXPECT_NEAR(loss.regularisation.item<double>(), outlier, 1e-12);
  EXPECT_NEAR(loss.total.item<double>(), (first + second) / 2 + 2 * outlier, 1e-12);
}

TEST(ExtendingExample, ScoresTheDistanceToTheMeanAlsoFromAFile) {
  Training training;
  training.features = at::tensor({1.f, 0.f, 3.f, 2.f}).view({2, 2});  // around (2, 1)
  Centre score, loaded;
  score.fit(training);
  TensorFile file;
  score.store(file, "score.");
  loaded.load(file, "score.");
  Batch batch;
  batch.features = at::tensor({5.f, 5.f, 2.f, 1.f}).view({2, 2});
  EXPECT_EQ(to_floats(loaded(batch)), (std::vector<float>{-5, 0}));
}

TEST(ExtendingExample, ReadsWhatItWrites) {
  const TemporaryFolder folder;
  const std::string path = folder / "outliers.ppm";
  write_outliers(path);
  std::vector<at::Tensor> blocks;
  visit_ppm(path, {}, [&](const at::Tensor& pixels) { blocks.push_back(pixels); });
  EXPECT_TRUE(at::cat(blocks).equal(read_images("world:outliers:200").pixels));
  write_file(path, read_file(path).substr(0, 5000));
  expect_error([&] { visit_ppm(path, {}, [](const at::Tensor&) {}); }, {path, "ends inside of an image"});
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Everything is there under its name, in tables and in the config's keys; no name can be taken twice.
void check_registered() {
  const TemporaryFolder folder;
  write_outliers(folder / "a.ppm");
  EXPECT_EQ(read_images(folder / "a.ppm#count=3").size(), 3);
  ObjectiveSettings settings;
  settings.name = "fixed_length";
  EXPECT_TRUE(make_objective(settings)->needs_outliers());
  EXPECT_EQ(resolved(settings).beta, 0.5);
  EXPECT_TRUE(has(objective_names(), "fixed_length"));
  EXPECT_FALSE(make_miner("confident")->uses_posterior());
  EXPECT_EQ(make_score("centre")->name(), "centre");
  EXPECT_TRUE(needs("centre", kTraining));
  EXPECT_TRUE(has(choose_scores({"all"}, kTraining), "centre"));
  EXPECT_FALSE(has(choose_scores({"all"}, kClasses), "centre"));
  Config config;
  for (const char* set : {"objective.name=fixed_length", "mining.miner=confident", "score=centre"})
    set_key(keys(config), set);
  EXPECT_EQ(config.score, "centre");

  const auto make_miner = [] { return std::make_unique<Confident>(); };
  const auto make_score = [] { return std::make_unique<Centre>(); };
  expect_error([&] { register_miner("confident", make_miner); }, {"mining.miner", "'confident'", "already"});
  expect_error([&] { register_miner("thompson", make_miner); }, {"mining.miner", "'thompson'", "already"});
  expect_error([&] { register_miner("none", make_miner); }, {"mining.miner", "'none'"});
  expect_error([&] { register_miner("", make_miner); }, {"mining.miner", "empty"});
  expect_error([&] { register_score("msp", make_score, kNothing); }, {"score", "'msp'", "already"});
  expect_error([&] { register_score("all", make_score, kNothing); }, {"score", "'all'"});
  expect_error([] { register_objective("energy", {}); }, {"objective.name", "'energy'", "already"});
  expect_error(
      [] {
        register_reader({"portable pixmaps (.ppm)", accepts_ppm, visit_ppm});
      },
      {"portable pixmaps", "already"});
}

// In a process of its own, since what is registered stays.
TEST(RegistrationDeathTest, AddsToWhatIsKnown) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        register_all();
        check_registered();
        std::exit(testing::Test::HasFailure());
      },
      testing::ExitedWithCode(0), "");
  EXPECT_FALSE(has(score_names(), "centre"));
}

}  // namespace
}  // namespace poem

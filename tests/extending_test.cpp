// The worked examples of docs/extending.md compile and compute what they say.
#include <gtest/gtest.h>

#include <cmath>

#include "../examples/extending/centre.cpp"
#include "../examples/extending/logit_norm.cpp"
#include "core/safetensors.h"

namespace poem {
namespace {

TEST(ExtendingExample, IsCrossEntropyOfNormalisedLogits) {
  ObjectiveSettings settings;
  settings.temperature = 0.5;
  const at::Tensor logits = at::tensor({3.0, 4.0, 0.0, 0.0, -6.0, 8.0}, at::kDouble).view({2, 3});
  const at::Tensor labels = at::tensor({0, 2}, at::kLong);
  const Loss loss = (*make_logit_norm(settings))(logits, labels, at::empty({0, 3}, at::kDouble), {});
  const double first = std::log(std::exp(1.2) + std::exp(1.6) + 1) - 1.2;
  const double second = std::log(1 + std::exp(-1.2) + std::exp(1.6)) - 1.6;
  EXPECT_NEAR(loss.total.item<double>(), (first + second) / 2, 1e-12);
}

TEST(ExtendingExample, IsTheDistanceToTheMeanAlsoFromAFile) {
  Training training;
  training.features = at::tensor({1.f, 0.f, 3.f, 2.f}).view({2, 2});  // around (2, 1)
  const auto score = make_centre(), loaded = make_centre();
  score->fit(training);
  TensorFile file;
  score->store(file, "score.");
  loaded->load(file, "score.");
  Batch batch;
  batch.features = at::tensor({5.f, 5.f, 2.f, 1.f}).view({2, 2});
  EXPECT_EQ(to_floats((*loaded)(batch)), (std::vector<float>{-5, 0}));
}

}  // namespace
}  // namespace poem

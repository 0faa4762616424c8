// The worked example of docs/extending.md compiles and computes what it says.
#include "../examples/extending/logit_norm.cpp"

#include <gtest/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace poem

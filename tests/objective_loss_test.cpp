#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "expect_error.h"
#include "poem/objective.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr int64_t kClasses = 5;

// Logits whose energies lie on both sides of both margins, −25 and −7.
at::Tensor logits(uint64_t key, int64_t rows) {
  Stream stream(3, "logits", key);
  at::Tensor result = at::empty({rows, kClasses}, at::kDouble);
  auto* x = result.data_ptr<double>();
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < kClasses; ++k)
      *x++ = 32.0 * static_cast<double>(row) / rows + 2 * stream.normal();
  }
  return result;
}

at::Tensor labels_for(int64_t rows) { return at::arange(rows).remainder(kClasses); }

double plain_energy(const at::Tensor& row) {
  const auto* x = row.data_ptr<double>();
  double sum = 0;
  for (int64_t k = 0; k < kClasses; ++k) sum += std::exp(x[k]);
  return -std::log(sum);
}

struct Plain {
  double classification = 0, regularisation = 0;
  int id_penalised = 0, outliers_penalised = 0;
};

Plain plain_loss(const ObjectiveSettings& s, const at::Tensor& id, const at::Tensor& outliers) {
  Plain loss;
  for (int64_t i = 0; i < id.size(0); ++i) {
    const double e = plain_energy(id[i]), n = static_cast<double>(id.size(0));
    loss.classification += (-id[i][i % kClasses].item<double>() - e) / n;
    if (e > s.m_in) {
      loss.regularisation += (e - s.m_in) * (e - s.m_in) / n;
      ++loss.id_penalised;
    }
  }
  for (int64_t i = 0; i < outliers.size(0); ++i) {
    const double e = plain_energy(outliers[i]);
    if (e >= s.m_out) continue;
    loss.regularisation += (s.m_out - e) * (s.m_out - e) / static_cast<double>(outliers.size(0));
    ++loss.outliers_penalised;
  }
  return loss;
}

// d f / d x by central differences, one number at a time.
at::Tensor differences(at::Tensor x, const std::function<double()>& f) {
  const double h = 1e-5;
  at::Tensor result = at::empty_like(x);
  auto *value = x.data_ptr<double>(), *out = result.data_ptr<double>();
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double before = value[i];
    value[i] = before + h;
    const double above = f();
    value[i] = before - h;
    const double below = f();
    value[i] = before;
    out[i] = (above - below) / (2 * h);
  }
  return result;
}

void expect_gradient(const ObjectiveSettings& settings, int64_t id_rows, int64_t outlier_rows) {
  const auto objective = make_objective(settings);
  at::Tensor id = logits(1, id_rows), outliers = logits(2, outlier_rows);
  const at::Tensor labels = labels_for(id_rows);
  const auto value = [&] {
    const at::NoGradGuard no_grad;
    return (*objective)(id, labels, outliers, {}).total.item<double>();
  };
  const at::Tensor id_expected = differences(id, value), outlier_expected = differences(outliers, value);
  at::Tensor id_leaf = id.clone().requires_grad_(), outlier_leaf = outliers.clone().requires_grad_();
  (*objective)(id_leaf, labels, outlier_leaf, {}).total.backward();
  EXPECT_TRUE(at::allclose(id_leaf.grad(), id_expected, 1e-6, 1e-7)) << id_leaf.grad() - id_expected;
  if (outlier_leaf.grad().defined()) {
    EXPECT_TRUE(at::allclose(outlier_leaf.grad(), outlier_expected, 1e-6, 1e-7));
  } else {
    EXPECT_EQ(outlier_expected.abs().sum().item<double>(), 0);
  }
}

TEST(EnergyObjective, EqualsThePlainFormula) {
  const at::Tensor id = logits(1, 40), outliers = logits(2, 30);
  for (const double beta : {0.0, 0.1, 2.5}) {
    ObjectiveSettings settings;
    settings.beta = beta;
    const Plain expected = plain_loss(settings, id, outliers);
    ASSERT_GT(expected.id_penalised, 5);  // rows on both sides of both margins
    ASSERT_LT(expected.id_penalised, 40);
    ASSERT_GT(expected.outliers_penalised, 5);
    ASSERT_LT(expected.outliers_penalised, 30);
    const Loss loss = (*make_objective(settings))(id, labels_for(40), outliers, {});
    EXPECT_NEAR(loss.classification.item<double>(), expected.classification, 1e-10);
    EXPECT_NEAR(loss.regularisation.item<double>(), expected.regularisation, 1e-9);
    EXPECT_NEAR(loss.total.item<double>(), expected.classification + beta * expected.regularisation, 1e-9);
  }
}

TEST(EnergyObjective, PushesIdDownAndOutliersUp) {
  ObjectiveSettings settings;
  settings.beta = 1;
  EXPECT_EQ(settings.m_in, -25);
  EXPECT_EQ(settings.m_out, -7);
  const auto objective = make_objective(settings);
  const auto regularisation = [&](double id_energy, double outlier_energy) {
    // One class: the energy is minus the logit and the cross-entropy 0.
    const at::Tensor id = at::full({1, 1}, -id_energy, at::kDouble),
                     outlier = at::full({1, 1}, -outlier_energy, at::kDouble);
    const Loss loss = (*objective)(id, at::zeros({1}, at::kLong), outlier, {});
    EXPECT_DOUBLE_EQ(loss.total.item<double>(), loss.regularisation.item<double>());
    return loss.regularisation.item<double>();
  };
  EXPECT_EQ(regularisation(-30, 0), 0);  // ID well below, outlier well above: nothing to mend
  EXPECT_EQ(regularisation(-25, -7), 0);
  EXPECT_DOUBLE_EQ(regularisation(-22, 0), 9);
  EXPECT_DOUBLE_EQ(regularisation(-30, -9), 4);
  EXPECT_DOUBLE_EQ(regularisation(-7, -25), 18.0 * 18 + 18.0 * 18);
}

TEST(EnergyObjective, GradientIsThatOfDifferences) {
  ObjectiveSettings settings;
  settings.beta = 0.3;
  expect_gradient(settings, 12, 9);
}

TEST(EnergyObjective, ABatchWithoutOutliersHasTheIdTermsOnly) {
  ObjectiveSettings settings;
  const at::Tensor id = logits(1, 20), none = at::empty({0, kClasses}, at::kDouble);
  const Plain expected = plain_loss(settings, id, none);
  const Loss loss = (*make_objective(settings))(id, labels_for(20), none, {});
  EXPECT_NEAR(loss.regularisation.item<double>(), expected.regularisation, 1e-9);
  EXPECT_NEAR(loss.total.item<double>(), expected.classification + 0.1 * expected.regularisation, 1e-9);
  expect_gradient(settings, 12, 0);
}

TEST(CrossEntropyObjective, IgnoresOutliers) {
  ObjectiveSettings settings;
  settings.name = "cross_entropy";
  const at::Tensor id = logits(1, 20), outliers = logits(2, 10);
  const Loss loss = (*make_objective(settings))(id, labels_for(20), outliers, {});
  EXPECT_NEAR(loss.total.item<double>(), plain_loss(settings, id, outliers).classification, 1e-10);
  EXPECT_EQ(loss.total.item<double>(), loss.classification.item<double>());
  EXPECT_EQ(loss.regularisation.item<double>(), 0);
  expect_gradient(settings, 12, 9);
  expect_gradient(settings, 12, 0);
}

TEST(Energy, SurvivesLargeLogits) {
  const at::Tensor e = energy(at::tensor({1000.f, 1000.f, -1000.f, -1000.f}).view({2, 2}));
  EXPECT_NEAR(e[0].item<float>(), -1000 - std::log(2.0), 1e-3);
  EXPECT_NEAR(e[1].item<float>(), 1000 - std::log(2.0), 1e-3);
}

TEST(Objective, AnUnknownNameIsAnError) {
  ObjectiveSettings settings;
  settings.name = "enrgy";
  expect_error([&] { make_objective(settings); }, {"objective.name", "'enrgy'", "nearest is 'energy'"});
}

}  // namespace
}  // namespace poem

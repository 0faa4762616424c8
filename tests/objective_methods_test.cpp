// The objectives of the methods POEM is compared with, against plain loops and finite differences.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "poem/objective.h"
#include "poem/random.h"

namespace poem {
namespace {

at::Tensor normal(uint64_t key, int64_t rows, int64_t columns, double deviation = 2) {
  Stream stream(5, "outputs", key);
  at::Tensor result = at::empty({rows, columns}, at::kDouble);
  auto* x = result.data_ptr<double>();
  for (int64_t i = 0; i < result.numel(); ++i) x[i] = deviation * stream.normal();
  return result;
}

at::Tensor uniform(int64_t count) {
  Stream stream(6, "chance");
  at::Tensor result = at::empty({count});
  for (int64_t i = 0; i < count; ++i) result[i] = stream.uniform();
  return result;
}

std::vector<double> row_of(const at::Tensor& table, int64_t row) {
  const at::Tensor values = table[row].contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

double lse(const std::vector<double>& z) {
  double sum = 0;
  for (const double x : z) sum += std::exp(x);
  return std::log(sum);
}

double cross_entropy(const at::Tensor& logits, const std::vector<int64_t>& labels) {
  double sum = 0;
  for (int64_t i = 0; i < logits.size(0); ++i) {
    const auto z = row_of(logits, i);
    sum += lse(z) - z[labels[i]];
  }
  return sum / static_cast<double>(logits.size(0));
}

constexpr int64_t kClasses = 4;

struct Case {
  explicit Case(const std::string& name, int64_t id_rows = 12, int64_t outlier_rows = 9) {
    settings.name = name;
    settings.beta = 0.7;
    settings.reject_classes = 3;
    settings.temperature = 0.3;
    objective = make_objective(settings);
    const int64_t outputs = name == "supcon" ? 6 : objective->outputs(kClasses);
    id = normal(1, id_rows, outputs);
    outliers = normal(2, outlier_rows, outputs);
    for (int64_t i = 0; i < id_rows; ++i) labels.push_back(i % kClasses);
    chance = uniform(outlier_rows);
  }

  Loss loss() const { return (*objective)(id, at::tensor(labels, at::kLong), outliers, chance); }

  // Analytic gradients of both inputs against central differences, one number at a time.
  void expect_gradients() {
    at::Tensor id_leaf = id.clone().requires_grad_(), outlier_leaf = outliers.clone().requires_grad_();
    (*objective)(id_leaf, at::tensor(labels, at::kLong), outlier_leaf, chance).total.backward();
    expect_gradient(id, id_leaf.grad());
    expect_gradient(outliers, outlier_leaf.grad());
  }

  void expect_gradient(at::Tensor& x, const at::Tensor& gradient) {
    constexpr double h = 1e-6;
    auto* value = x.data_ptr<double>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double before = value[i];
      value[i] = before + h;
      const double above = loss().total.item<double>();
      value[i] = before - h;
      const double below = loss().total.item<double>();
      value[i] = before;
      const double expected = gradient.defined() ? gradient.flatten()[i].item<double>() : 0;
      ASSERT_NEAR((above - below) / (2 * h), expected, 1e-6) << settings.name << " " << i;
    }
  }

  ObjectiveSettings settings;
  std::unique_ptr<Objective> objective;
  at::Tensor id, outliers, chance;
  std::vector<int64_t> labels;
};

TEST(OutlierExposure, IsCrossEntropyToTheUniformDistribution) {
  Case c("oe");
  EXPECT_EQ(c.objective->outputs(kClasses), kClasses);
  double expected = 0;
  for (int64_t i = 0; i < c.outliers.size(0); ++i) {
    const auto z = row_of(c.outliers, i);
    for (const double x : z) expected += (lse(z) - x) / kClasses / 9;
  }
  const Loss loss = c.loss();
  EXPECT_NEAR(loss.classification.item<double>(), cross_entropy(c.id, c.labels), 1e-12);
  EXPECT_NEAR(loss.regularisation.item<double>(), expected, 1e-12);
  EXPECT_NEAR(loss.total.item<double>(), cross_entropy(c.id, c.labels) + 0.7 * expected, 1e-12);
  c.expect_gradients();
}

TEST(OutlierClass, IsCrossEntropyWithOneMoreClass) {
  Case c("outlier_class");
  ASSERT_EQ(c.objective->outputs(kClasses), kClasses + 1);
  const double id = cross_entropy(c.id, c.labels);
  const double outliers = cross_entropy(c.outliers, std::vector<int64_t>(9, kClasses));
  EXPECT_NEAR(c.loss().total.item<double>(), id + 0.7 * outliers, 1e-12);
  c.expect_gradients();
}

TEST(Sofl, OutliersKeepTheirRejectClassOrDrawOne) {
  Case c("sofl", 12, 200);
  ASSERT_EQ(c.objective->outputs(kClasses), kClasses + 3);
  c.chance.narrow(0, 0, 20).fill_(1);  // what rounding to float32 can make of a draw below 1
  std::vector<int64_t> labels, drawn(3);
  for (int64_t i = 0; i < c.outliers.size(0); ++i) {
    const auto z = row_of(c.outliers, i);
    int64_t label = std::max_element(z.begin(), z.end()) - z.begin();
    if (label < kClasses) {
      label = kClasses + std::min<int64_t>(2, static_cast<int64_t>(c.chance[i].item<float>() * 3));
      ++drawn[label - kClasses];
    }
    labels.push_back(label);
  }
  for (const int64_t count : drawn) EXPECT_GT(count, 20);  // all of them are drawn
  const double expected = cross_entropy(c.id, c.labels) + 0.7 * cross_entropy(c.outliers, labels);
  EXPECT_NEAR(c.loss().total.item<double>(), expected, 1e-12);
  Case small("sofl");
  small.expect_gradients();
}

TEST(Ccu, IsTheLossOfThePaperWithLambdaOne) {
  Case c("ccu");
  ASSERT_EQ(c.objective->outputs(kClasses), kClasses + 2);
  EXPECT_EQ(c.objective->head(), HeadKind::kDensity);
  double in = 0, out = 0;
  for (int64_t i = 0; i < 12; ++i) {
    const auto z = row_of(c.id, i);
    in += (-z[c.labels[i]] - std::log(0.5 * std::exp(z[4]) + 0.5 * std::exp(z[5]))) / 12;
  }
  for (int64_t i = 0; i < 9; ++i) {
    const auto z = row_of(c.outliers, i);
    out += (-(z[0] + z[1] + z[2] + z[3]) / 4 - std::log(0.5 * std::exp(z[4]) + 0.5 * std::exp(z[5]))) / 9;
  }
  EXPECT_NEAR(c.loss().total.item<double>(), 0.5 * in + 0.5 * out, 1e-12);
  c.expect_gradients();
}

TEST(SupCon, IsTheMeanOverAnchorsAndPositives) {
  Case c("supcon");
  EXPECT_EQ(c.objective->views(), 2);
  const int64_t n = 12;
  std::vector<std::vector<double>> u;
  for (int64_t i = 0; i < n; ++i) {
    u.push_back(row_of(c.id, i));
    double norm = 0;
    for (const double x : u[i]) norm += x * x;
    for (double& x : u[i]) x /= std::sqrt(norm);
  }
  double expected = 0;
  for (int64_t i = 0; i < n; ++i) {
    const auto similarity = [&](int64_t j) {
      double sum = 0;
      for (size_t d = 0; d < u[i].size(); ++d) sum += u[i][d] * u[j][d];
      return sum / 0.3;
    };
    double all = 0, positives = 0, term = 0;
    for (int64_t j = 0; j < n; ++j) all += j == i ? 0 : std::exp(similarity(j));
    for (int64_t j = 0; j < n; ++j) {
      if (j == i || c.labels[j] != c.labels[i]) continue;
      term -= similarity(j) - std::log(all);
      ++positives;
    }
    expected += term / positives / static_cast<double>(n);
  }
  EXPECT_NEAR(c.loss().total.item<double>(), expected, 1e-12);
  c.expect_gradients();
}

TEST(Objectives, WithoutOutliersOnlyTheIdTermIsLeft) {
  for (const char* name : {"oe", "outlier_class", "sofl"}) {
    Case c(name, 12, 0);
    const Loss loss = c.loss();
    EXPECT_NEAR(loss.total.item<double>(), cross_entropy(c.id, c.labels), 1e-12) << name;
    EXPECT_EQ(loss.regularisation.item<double>(), 0) << name;
  }
}

}  // namespace
}  // namespace poem

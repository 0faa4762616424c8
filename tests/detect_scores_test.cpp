// Every score from features against plain loops over doubles.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <set>

#include "core/safetensors.h"
#include "detect/gaussians.h"
#include "detect/logistic.h"
#include "detect/percentile.h"
#include "detect/posthoc.h"
#include "expect_error.h"
#include "poem/random.h"
#include "poem/results.h"

namespace poem {
namespace {

using Row = std::vector<double>;
using Matrix = std::vector<Row>;

at::Tensor random(at::IntArrayRef sizes, uint64_t key, double shift = 0) {
  Stream stream(key, "test");
  at::Tensor t = at::empty(sizes);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data_ptr<float>()[i] = static_cast<float>(stream.normal() + shift);
  return t;
}

Matrix matrix(const at::Tensor& t) {
  Matrix rows(t.size(0), Row(t.size(1)));
  for (int64_t i = 0; i < t.size(0); ++i) {
    for (int64_t j = 0; j < t.size(1); ++j) rows[i][j] = t[i][j].item<double>();
  }
  return rows;
}

Row row(const at::Tensor& t) { return matrix(t.unsqueeze(0))[0]; }

// Features as a ReLU leaves them, some rows twice, and labels in turn.
FeatureData toy(int64_t rows, int64_t width, int64_t classes) {
  FeatureData data;
  data.train = random({rows, width}, 1, 0.5).relu();
  data.labels = at::arange(rows, at::kLong).remainder(classes);
  for (int64_t i = 0; i < rows; ++i) data.train[i] += 0.3 * (i % classes) * ((i + 1) % 2);
  data.head = {random({classes, width}, 2), random({classes}, 3)};
  data.id = at::cat({random({12, width}, 4, 0.5).relu(), data.train.narrow(0, 0, 3)});
  return data;
}

at::Tensor scored(const std::string& name, const FeatureData& data) {
  return score_features(fit_scores({name}, data), data.head, data.id)[0];
}

double dot(const Row& a, const Row& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }
double norm(const Row& a) { return std::sqrt(dot(a, a)); }
Row minus(const Row& a, const Row& b) {
  Row c(a.size());
  std::transform(a.begin(), a.end(), b.begin(), c.begin(), std::minus<>());
  return c;
}
double log_sum_exp(const Row& z) {
  double sum = 0;
  for (double x : z) sum += std::exp(x);
  return std::log(sum);
}
Row softmax(Row z) {
  const double total = log_sum_exp(z);
  for (double& x : z) x = std::exp(x - total);
  return z;
}
double percentile_by_sorting(Row values, double p) {
  std::sort(values.begin(), values.end());
  const double place = p / 100 * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (place - static_cast<double>(low)) * (values[high] - values[low]);
}

Matrix inverse(Matrix a) {  // Gauss and Jordan, with pivots
  const size_t n = a.size();
  for (size_t i = 0; i < n; ++i) {
    a[i].resize(2 * n, 0);
    a[i][n + i] = 1;
  }
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t r = c; r < n; ++r) {
      if (std::abs(a[r][c]) > std::abs(a[pivot][c])) pivot = r;
    }
    std::swap(a[c], a[pivot]);
    const double scale = a[c][c];
    for (double& x : a[c]) x /= scale;
    for (size_t r = 0; r < n; ++r) {
      if (r == c) continue;
      const double factor = a[r][c];
      for (size_t k = 0; k < 2 * n; ++k) a[r][k] -= factor * a[c][k];
    }
  }
  for (Row& r : a) r.erase(r.begin(), r.begin() + static_cast<std::ptrdiff_t>(n));
  return a;
}

// Eigenvectors as rows, by ascending eigenvalue: Jacobi's rotations.
Matrix eigenvectors(Matrix a) {
  const size_t n = a.size();
  Matrix v(n, Row(n, 0));
  for (size_t i = 0; i < n; ++i) v[i][i] = 1;
  for (int sweep = 0; sweep < 60; ++sweep) {
    for (size_t p = 0; p < n; ++p) {
      for (size_t q = p + 1; q < n; ++q) {
        if (std::abs(a[p][q]) < 1e-300) continue;
        const double angle = 0.5 * std::atan2(2 * a[p][q], a[q][q] - a[p][p]);
        const double c = std::cos(angle), s = std::sin(angle);
        for (size_t k = 0; k < n; ++k) {
          const double x = a[k][p], y = a[k][q];
          a[k][p] = c * x - s * y;
          a[k][q] = s * x + c * y;
        }
        for (size_t k = 0; k < n; ++k) {
          const double x = a[p][k], y = a[q][k];
          a[p][k] = c * x - s * y;
          a[q][k] = s * x + c * y;
          const double vp = v[p][k], vq = v[q][k];
          v[p][k] = c * vp - s * vq;
          v[q][k] = s * vp + c * vq;
        }
      }
    }
  }
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t i, size_t j) { return a[i][i] < a[j][j]; });
  Matrix sorted;
  for (size_t i : order) sorted.push_back(v[i]);
  return sorted;
}

struct Naive {
  explicit Naive(const FeatureData& data)
      : train(matrix(data.train)),
        w(matrix(data.head.weight)),
        b(row(data.head.bias)),
        labels(data.labels.data_ptr<int64_t>(), data.labels.data_ptr<int64_t>() + data.labels.numel()) {}

  Row logits(const Row& h) const { return logits(h, w); }
  Row logits(const Row& h, const Matrix& weight) const {
    Row z = b;
    for (size_t k = 0; k < z.size(); ++k) z[k] += dot(weight[k], h);
    return z;
  }
  Row mean() const {
    Row m(train[0].size(), 0);
    for (const Row& h : train) {
      for (size_t j = 0; j < m.size(); ++j) m[j] += h[j] / static_cast<double>(train.size());
    }
    return m;
  }

  // Squared distances to each class that occurs, with the tied covariance's inverse.
  Row distances(const Row& h, const Matrix& rows, const std::vector<int64_t>& classes) const {
    const size_t m = h.size();
    std::map<int64_t, Row> means;
    std::map<int64_t, double> counts;
    for (size_t i = 0; i < rows.size(); ++i) {
      means[classes[i]].resize(m, 0);
      ++counts[classes[i]];
      for (size_t j = 0; j < m; ++j) means[classes[i]][j] += rows[i][j];
    }
    for (auto& [c, mean] : means) {
      for (double& x : mean) x /= counts[c];
    }
    Matrix covariance(m, Row(m, 0));
    for (size_t i = 0; i < rows.size(); ++i) {
      const Row x = minus(rows[i], means[classes[i]]);
      for (size_t a = 0; a < m; ++a) {
        for (size_t c = 0; c < m; ++c) covariance[a][c] += x[a] * x[c] / static_cast<double>(rows.size());
      }
    }
    const Matrix precision = inverse(covariance);
    Row result;
    for (const auto& [c, mean] : means) {
      const Row x = minus(h, mean);
      double d = 0;
      for (size_t a = 0; a < m; ++a) d += x[a] * dot(precision[a], x);
      result.push_back(d);
    }
    return result;
  }

  double vim(const Row& h) const {
    // W⁺b = Wᵀ(WWᵀ)⁻¹b for more features than classes.
    Matrix gram(w.size(), Row(w.size()));
    for (size_t i = 0; i < w.size(); ++i) {
      for (size_t j = 0; j < w.size(); ++j) gram[i][j] = dot(w[i], w[j]);
    }
    const Matrix solve = inverse(gram);
    const size_t m = h.size();
    Row origin(m, 0);
    for (size_t k = 0; k < w.size(); ++k) {
      for (size_t j = 0; j < m; ++j) origin[j] -= w[k][j] * dot(solve[k], b);
    }
    Matrix scatter(m, Row(m, 0));
    for (const Row& t : train) {
      const Row x = minus(t, origin);
      for (size_t a = 0; a < m; ++a) {
        for (size_t c = 0; c < m; ++c) scatter[a][c] += x[a] * x[c];
      }
    }
    const Matrix directions = eigenvectors(scatter);
    const auto residual = [&](const Row& f) {
      double sum = 0;
      for (size_t i = 0; i < m - m / 2; ++i) sum += std::pow(dot(directions[i], minus(f, origin)), 2);
      return std::sqrt(sum);
    };
    double largest = 0, length = 0;
    for (const Row& t : train) {
      const Row z = logits(t);
      largest += *std::max_element(z.begin(), z.end());
      length += residual(t);
    }
    return log_sum_exp(logits(h)) - largest / length * residual(h);
  }

  double scaled(Row h, double p, bool prune) const {
    const double limit = percentile_by_sorting(h, p);
    double all = 0, kept = 0;
    for (double& x : h) {
      all += x;
      if (x >= limit) kept += x;
      if (prune && x < limit) x = 0;
    }
    if (kept != 0) {
      for (double& x : h) x *= std::exp(all / kept);
    }
    return log_sum_exp(logits(h));
  }

  double knn(const Row& h, size_t k) const {
    const auto unit = [](Row x) {
      const double length = norm(x);
      if (length > 0) {
        for (double& v : x) v /= length;
      }
      return x;
    };
    Row d;
    for (const Row& t : train) d.push_back(norm(minus(unit(h), unit(t))));
    std::sort(d.begin(), d.end());
    return -d[std::min(k, d.size()) - 1];
  }

  double react(Row h) const {
    Row all;
    for (const Row& t : train) all.insert(all.end(), t.begin(), t.end());
    const double limit = percentile_by_sorting(all, 90);
    for (double& x : h) x = std::min(x, limit);
    return log_sum_exp(logits(h));
  }

  double dice(const Row& h) const {
    const Row mu = mean();
    Row contributions;
    for (const Row& r : w) {
      for (size_t j = 0; j < r.size(); ++j) contributions.push_back(r[j] * mu[j]);
    }
    const double limit = percentile_by_sorting(contributions, 90);
    Matrix masked = w;
    for (Row& r : masked) {
      for (size_t j = 0; j < r.size(); ++j) r[j] = r[j] * mu[j] > limit ? r[j] : 0;
    }
    return log_sum_exp(logits(h, masked));
  }

  double fdbd(const Row& h) const {
    const Row z = logits(h);
    const size_t y = std::max_element(z.begin(), z.end()) - z.begin();
    double sum = 0;
    for (size_t c = 0; c < z.size(); ++c) {
      if (c != y) sum += (z[y] - z[c]) / norm(minus(w[y], w[c]));
    }
    return sum / static_cast<double>(z.size() - 1) / norm(minus(h, mean()));
  }

  double gen(const Row& h) const {
    double sum = 0;
    for (double p : softmax(logits(h))) sum += std::pow(p, 0.1) * std::pow(1 - p, 0.1);
    return -sum;
  }

  double score(const std::string& name, const Row& h) const {
    const Row z = logits(h), p = softmax(z);
    if (name == "msp") return *std::max_element(p.begin(), p.end());
    if (name == "maxlogit") return *std::max_element(z.begin(), z.end());
    if (name == "energy") return log_sum_exp(z);
    if (name == "gen") return gen(h);
    if (name == "knn") return knn(h, 50);
    if (name == "react") return react(h);
    if (name == "dice") return dice(h);
    if (name == "ash") return scaled(h, 90, true);
    if (name == "scale") return scaled(h, 85, false);
    if (name == "vim") return vim(h);
    if (name == "fdbd") return fdbd(h);
    const bool unit = name == "ssd";
    const auto prepared = [&](Row x) {
      const double length = norm(x);
      if (unit) {
        for (double& v : x) v /= length;
      }
      return x;
    };
    Matrix rows;
    for (const Row& t : train) rows.push_back(prepared(t));
    const Row d = distances(prepared(h), rows, labels);
    const double nearest = *std::min_element(d.begin(), d.end());
    if (name != "rmds") return -0.5 * nearest;
    return distances(h, rows, std::vector<int64_t>(rows.size(), 0))[0] - nearest;
  }

  Matrix train, w;
  Row b;
  std::vector<int64_t> labels;
};

const std::vector<std::string> kOfFeatures = {"msp",  "maxlogit", "energy", "mds", "rmds", "knn",  "react",
                                              "dice", "ash",      "scale",  "vim", "gen",  "fdbd", "ssd"};

void expect_naive(const std::string& name, const FeatureData& data, double tolerance) {
  const at::Tensor scores = scored(name, data);
  ASSERT_EQ(scores.sizes(), (std::vector<int64_t>{data.id.size(0)})) << name;
  ASSERT_EQ(scores.scalar_type(), at::kFloat) << name;
  const Naive naive(data);
  const Matrix queries = matrix(data.id);
  for (size_t i = 0; i < queries.size(); ++i) {
    const double expected = naive.score(name, queries[i]);
    EXPECT_NEAR(scores[i].item<double>(), expected, tolerance * std::max(1.0, std::abs(expected)))
        << name << ", row " << i;
  }
}

TEST(FeatureScores, EqualPlainLoops) {
  EXPECT_EQ(choose_scores({"all"}, kPosthocNeeds), kOfFeatures);
  EXPECT_EQ(choose_scores({"knn", "msp", "knn"}, kPosthocNeeds), (std::vector<std::string>{"knn", "msp"}));
  std::vector<std::string> knn_first = {"knn"};
  std::copy_if(kOfFeatures.begin(), kOfFeatures.end(), std::back_inserter(knn_first),
               [](const std::string& name) { return name != "knn"; });
  EXPECT_EQ(choose_scores({"knn", "all", "msp"}, kPosthocNeeds), knn_first);
  const FeatureData data = toy(160, 11, 4);
  for (const std::string& name : kOfFeatures) expect_naive(name, data, 2e-5);
}

TEST(FeatureScores, EqualPlainLoopsForOneFeatureAndTwoClasses) {
  FeatureData data = toy(60, 1, 2);
  data.train += 0.1;  // no row is without a direction
  data.id += 0.1;
  for (const std::string& name : kOfFeatures) {
    // There is no space of one feature that W⁺ with two rows is the naive formula for, and unit rows of one
    // feature do not vary.
    if (name == "vim" || name == "ssd") continue;
    expect_naive(name, data, 2e-5);
  }
  EXPECT_TRUE(at::isfinite(scored("vim", data)).all().item<bool>());
  expect_error([&] { scored("ssd", data); }, {"score 'ssd'", "cannot be fitted", "rows are the same"});
}

TEST(FeatureScores, KnnCrossesItsBlocksExactly) {
  FeatureData data = toy(9000, 8, 2);  // more than two blocks of training rows
  data.id = data.id.narrow(0, 0, 12);
  expect_naive("knn", data, 1e-5);
  const Naive naive(data);
  const at::Tensor scores = scored("knn", data);
  for (int64_t i = 0; i < 12; ++i) {
    const Row query = row(data.id[i]);
    EXPECT_LT(scores[i].item<double>(), naive.knn(query, 49)) << "one neighbour is missing, row " << i;
    EXPECT_GT(scores[i].item<double>(), naive.knn(query, 51)) << "one neighbour too many, row " << i;
  }
}

TEST(FeatureScores, AFeatureThatIsNotANumberGivesNoScore) {
  FeatureData data = toy(60, 4, 3);
  data.id[1][2] = std::nan("");
  for (const std::string& name : kOfFeatures) {
    const at::Tensor scores = scored(name, data);
    EXPECT_TRUE(std::isnan(scores[1].item<double>())) << name << " " << scores[1].item<double>();
    EXPECT_TRUE(std::isfinite(scores[0].item<double>())) << name;
  }
}

TEST(FeatureScores, KnnOfFewTrainingRowsTakesTheFarthest) {
  const FeatureData data = toy(20, 5, 2);
  expect_naive("knn", data, 1e-5);
}

TEST(FeatureScores, KnnTakesARowOfZerosAsItIs) {
  FeatureData data = toy(60, 4, 2);
  data.id[0].zero_();
  EXPECT_NEAR(scored("knn", data)[0].item<double>(), -1, 1e-6);
  expect_naive("knn", data, 1e-5);
}

// What is fitted on the training features, and of that what goes by lengths, so that one row can hide the
// others.
const std::set<std::string> kFittedOnRows = {"mds", "rmds", "knn", "react", "dice", "vim", "fdbd", "ssd"};
const std::set<std::string> kOfLengths = {"mds", "rmds", "dice", "vim", "fdbd"};

// Alone such a score is an error; among others it is marked, and the others are what they were.
void expect_unfit(const FeatureData& data, const std::set<std::string>& unfit, const std::string& why) {
  const auto scores = fit_scores({"all"}, data);
  const std::vector<at::Tensor> values = score_features(scores, data.head, data.id);
  ASSERT_EQ(scores.size(), kOfFeatures.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const std::string& name = scores[i]->name();
    EXPECT_EQ(name, kOfFeatures[i]);
    const Results results = results_of(*scores[i], to_doubles(values[i]), {{"far", {-1e9, 1e9}}});
    EXPECT_EQ(results.has_figures(), unfit.count(name) == 0) << name << ": " << results.problem;
    if (unfit.count(name) == 0) {
      EXPECT_TRUE(values[i].equal(scored(name, data))) << name;
    } else {
      EXPECT_NE(results.problem.find(why), std::string::npos) << name << ": " << results.problem;
      expect_error([&] { scored(name, data); }, {"score '" + name + "'", "cannot be fitted", why});
    }
  }
}

TEST(FeatureScores, OneTrainingRowFitsNothing) {
  FeatureData data = toy(80, 6, 3);
  data.train = data.train.narrow(0, 0, 1);
  data.labels = data.labels.narrow(0, 0, 1);
  expect_unfit(data, kFittedOnRows, "one training row");
}

TEST(FeatureScores, ConstantTrainingRowsFitNothing) {
  FeatureData data = toy(80, 6, 3);
  data.train.copy_(data.train[0].clone().expand_as(data.train));
  expect_unfit(data, kFittedOnRows, "all training rows are the same");
  data.train *= 1 + 1e-7 * random({80, 6}, 9);  // but for rounding
  expect_unfit(data, kFittedOnRows, "all training rows are the same");
}

TEST(FeatureScores, ARowThatHidesTheOthersFitsNoLengths) {
  FeatureData data = toy(80, 6, 3);
  data.train[7][2] = 1e30;
  expect_unfit(data, kOfLengths, "training row 7 has length 1e+30");
  data.train[7][2] = 1e5;  // an outlier, no more
  expect_unfit(data, {}, "");
}

TEST(FeatureScores, OneRowPerClassHasNoCovariance) {
  FeatureData data = toy(3, 6, 3);
  const auto scores = fit_scores({"mds", "ssd", "knn"}, data);
  EXPECT_NE(scores[0]->problem().find("rows are the same"), std::string::npos);
  EXPECT_NE(scores[1]->problem().find("rows are the same"), std::string::npos);
  EXPECT_EQ(scores[2]->problem(), "");
}

// Five rows span no more than five of ten directions: outside of the principal space nothing is left but
// rounding, by which everything would be divided.
TEST(FeatureScores, FewerRowsThanPrincipalDirectionsFitNoVim) {
  FeatureData data = toy(5, 12, 2);
  expect_error([&] { scored("vim", data); },
               {"score 'vim'", "5 training rows of 12 features", "6 principal"});
  EXPECT_NO_THROW(scored("vim", toy(40, 12, 2)));
}

TEST(FeatureScores, ConstantTestRowsSayNothing) {
  FeatureData data = toy(80, 6, 3);
  data.id.fill_(0.7);
  for (const auto& score : fit_scores({"all"}, data)) {
    const at::Tensor values = (*score)({data.head(data.id), at::empty({15, 0}), data.id, {}, nullptr});
    const std::vector<double> scores = to_doubles(values);
    const Results results = results_of(*score, scores, {{"far", scores}});
    EXPECT_TRUE(results.has_figures()) << score->name();
    EXPECT_NE(results.problem.find("all scores are"), std::string::npos) << score->name();
  }
}

TEST(FeatureScores, AFeatureThatNeverVariesChangesNoDistance) {
  const FeatureData data = toy(120, 5, 3);
  FeatureData padded = data;
  const auto with_constant = [](const at::Tensor& x) {
    return at::cat({x, at::full({x.size(0), 1}, 3.3)}, 1);
  };
  padded.train = with_constant(data.train);
  padded.id = with_constant(data.id);
  padded.head.weight = with_constant(data.head.weight);
  for (const char* name : {"mds", "rmds"}) {
    EXPECT_TRUE(at::allclose(scored(name, padded), scored(name, data), 1e-4, 1e-4)) << name;
  }
}

TEST(FeatureScores, AClassWithoutTrainingRowsHasNoMean) {
  FeatureData data = toy(120, 5, 4);
  data.labels = at::where(data.labels == 2, at::zeros_like(data.labels), data.labels);
  for (const char* name : {"mds", "rmds"}) expect_naive(name, data, 2e-5);
}

TEST(FeatureScores, FeaturesOfZeroKeepTheEnergyOfTheBias) {
  FeatureData data = toy(60, 10, 3);
  data.id = at::zeros({2, 10});
  const double expected = log_sum_exp(row(data.head.bias));
  for (const char* name : {"ash", "scale", "energy"}) {
    EXPECT_NEAR(scored(name, data)[1].item<double>(), expected, 1e-6) << name;
  }
}

TEST(FeatureScores, ClassesOfOneWeightAndAFeatureAtTheMeanStayFinite) {
  FeatureData data = toy(60, 4, 3);
  data.head.weight[1].copy_(data.head.weight[0]);
  data.id[0].copy_(data.train.mean(0));
  EXPECT_TRUE(at::isfinite(scored("fdbd", data)).all().item<bool>());
}

TEST(FeatureScores, GenSumsOnlyTheHundredLargest) {
  FeatureData data = toy(130, 3, 120);
  const at::Tensor scores = scored("gen", data);
  const Naive naive(data);
  for (int64_t i = 0; i < scores.size(0); ++i) {
    Row p = softmax(naive.logits(matrix(data.id)[i]));
    std::sort(p.rbegin(), p.rend());
    double sum = 0;
    for (int k = 0; k < 100; ++k) sum += std::pow(p[k] * (1 - p[k]), 0.1);
    EXPECT_NEAR(scores[i].item<double>(), -sum, 1e-4);
  }
}

TEST(FeatureScores, DoNotDependOnTheBlockOfRows) {
  FeatureData data = toy(200, 7, 3);
  data.id = random({2100, 7}, 9).relu();  // more than one block
  FeatureData last = data;
  last.id = data.id.narrow(0, 2090, 10);
  for (const std::string& name : kOfFeatures) {
    EXPECT_TRUE(at::allclose(scored(name, data).narrow(0, 2090, 10), scored(name, last), 1e-5, 1e-5)) << name;
  }
}

TEST(FeatureScores, ComeBackFromAFileAsTheyWere) {
  const FeatureData data = toy(90, 6, 3);
  const at::Tensor logits = data.head(data.id);
  const Batch batch{logits, logits.narrow(1, 0, 0), data.id, {}, nullptr};
  for (const std::string& name : kOfFeatures) {
    const auto fitted = fit_scores({name}, data);
    TensorFile file;
    fitted[0]->store(file, "score.");
    const auto loaded = make_score(name);
    loaded->load(file, "score.");
    EXPECT_TRUE((*loaded)(batch).equal((*fitted[0])(batch))) << name;
    EXPECT_EQ(needs(name, kFitted), !file.tensors.empty()) << name;
  }
}

// Four classes and two outputs beyond them.
Batch with_rejects(const at::Tensor& outputs) {
  return {outputs.narrow(1, 0, 4), outputs.narrow(1, 4, 2), {}, {}, nullptr};
}

TEST(Scores, RejectIsTheOddsAgainstTheOutputsBeyondTheClasses) {
  const at::Tensor outputs = random({5, 6}, 1) * 3;
  const Batch batch = with_rejects(outputs);
  const at::Tensor reject = (*make_score("reject"))(batch), msp = (*make_score("msp"))(batch);
  for (int64_t i = 0; i < 5; ++i) {
    const Row all = softmax(row(outputs[i])), classes = softmax(row(outputs[i].narrow(0, 0, 4)));
    const double p = all[4] + all[5];
    EXPECT_NEAR(reject[i].item<double>(), std::log((1 - p) / p), 1e-5);
    EXPECT_NEAR(msp[i].item<double>(), *std::max_element(classes.begin(), classes.end()), 1e-6);
  }
}

TEST(Scores, RejectEnergyIsOneAndAHalfEnergiesLessTheRejects) {
  const at::Tensor outputs = random({5, 6}, 2) * 3;
  const at::Tensor scores = (*make_score("reject_energy"))(with_rejects(outputs));
  for (int64_t i = 0; i < 5; ++i) {
    double classes = 0, others = 0;
    for (int64_t j = 0; j < 6; ++j) (j < 4 ? classes : others) += std::exp(outputs[i][j].item<double>());
    EXPECT_NEAR(scores[i].item<double>(), 1.5 * std::log(classes) - std::log(others), 1e-5);
  }
  EXPECT_FALSE(needs("reject_energy", kFitted | kNetwork));  // so that a miner can rank by it
  expect_error([] { choose_scores({"reject_energy"}, kTraining | kNetwork | kClasses); },
               {"'reject_energy'", "beyond the classes"});
}

// Logits of any size: 1.5E − z must not overflow where exp(z) does.
TEST(Scores, RejectEnergyIsFiniteForLargeLogits) {
  const at::Tensor outputs =
      at::tensor({900.f, 1.f, 2.f, 3.f, 4.f, 5.f, -900.f, -901.f, -902.f, -903.f, 800.f, -5.f}).view({2, 6});
  const at::Tensor scores = (*make_score("reject_energy"))(with_rejects(outputs));
  EXPECT_NEAR(scores[0].item<double>(), 1350 - (5 + std::log1p(std::exp(-1.0))), 1e-3);
  const double classes = -900 + std::log(1 + std::exp(-1.0) + std::exp(-2.0) + std::exp(-3.0));
  EXPECT_NEAR(scores[1].item<double>(), 1.5 * classes - 800, 1e-3);
}

// Where p(reject) is 1 or 0 in float32, the order is still that of float64.
TEST(Scores, RejectTellsApartWhatIsCertain) {
  for (const double sign : {1.0, -1.0}) {
    at::Tensor outputs = random({200, 6}, 7);
    for (int64_t i = 0; i < 200; ++i) outputs[i].narrow(0, 4, 2) += sign * (20 + 0.2 * (i * 77 % 200));
    const at::Tensor scores = (*make_score("reject"))(with_rejects(outputs));
    std::vector<std::pair<double, double>> pairs;  // by the smaller of p and 1 − p, which float64 resolves
    for (int64_t i = 0; i < 200; ++i) {
      const Row p = softmax(row(outputs[i]));
      const double rejected = p[4] + p[5], kept = p[0] + p[1] + p[2] + p[3];
      pairs.emplace_back(sign > 0 ? kept : -rejected, scores[i].item<double>());
    }
    std::sort(pairs.begin(), pairs.end());
    for (size_t i = 1; i < pairs.size(); ++i) EXPECT_LT(pairs[i - 1].second, pairs[i].second) << i;
  }
}

TEST(Scores, WhatIsMissingIsNamed) {
  expect_error([] { make_score("enegry"); }, {"'enegry'", "nearest is 'energy'", "fdbd"});
  expect_error([] { choose_scores({"all", "zebra"}, kPosthocNeeds); }, {"'zebra' (there are: msp, "});
  expect_error([] { choose_scores({"knn"}, kNetwork); }, {"'knn'", "ID training images", "option train"});
  expect_error([] { choose_scores({"odin"}, kPosthocNeeds); }, {"'odin'", "gradients", "poem eval"});
  expect_error([] { choose_scores({"reject"}, kTraining | kNetwork); }, {"'reject'", "beyond the classes"});
  expect_error([] { choose_scores({"mahalanobis"}, kClasses | kTraining | kNetwork); },
               {"'mahalanobis'", "not trained on", "data.validation", "option train at least 20 images"});
  expect_error([] { choose_scores({"energy"}, kTraining | kNetwork); }, {"'energy'", "classes", "ssd"});
  expect_error([] { choose_scores({"vim"}, kTraining | kClasses); }, {"'vim'", "linear", "msp"});
  EXPECT_EQ(choose_scores({"knn"}, kNothing, "knn"), std::vector<std::string>{"knn"});
  EXPECT_EQ(choose_scores({"all"}, kClasses | kLinear | kHead),
            (std::vector<std::string>{"msp", "maxlogit", "energy", "ash", "scale", "gen"}));
}

TEST(Scores, ToFloatsKeepsTheOrderOfStridedRows) {
  EXPECT_EQ(to_floats(at::arange(6).view({3, 2}).select(1, 1)), (std::vector<float>{1, 3, 5}));
  EXPECT_TRUE(to_floats(at::empty({0})).empty());
  EXPECT_EQ(to_doubles(at::tensor({1 - 1e-12}, at::kDouble)), (std::vector<double>{1 - 1e-12}));
}

TEST(Percentile, EqualsSorting) {
  const at::Tensor values = random({7, 31}, 5).round();  // with ties
  for (double p : {0.0, 50.0, 85.0, 90.0, 99.9, 100.0}) {
    EXPECT_NEAR(percentile(values, p), percentile_by_sorting(row(values.view({-1})), p), 1e-7);
    const at::Tensor rows = row_percentiles(values, p);
    for (int64_t i = 0; i < 7; ++i)
      EXPECT_NEAR(rows[i].item<double>(), percentile_by_sorting(row(values[i]), p), 1e-6);
  }
  EXPECT_EQ(percentile(at::ones({1}), 90), 1);
}

TEST(Logistic, IsWhereTheGradientVanishes) {
  const at::Tensor positive = random({40, 2}, 1, 0.7), negative = random({30, 2}, 2, -0.4);
  const at::Tensor w = fit_logistic(positive, negative);
  const at::Tensor rows = at::cat({positive, negative}).to(at::kDouble);
  const at::Tensor deviation = rows.std(0, false);
  const at::Tensor error =
      logistic_logits(w, rows).sigmoid() - at::cat({at::ones({40}), at::zeros({30})}).to(at::kDouble);
  EXPECT_NEAR(error.sum().item<double>(), 0, 1e-8);
  for (int64_t j = 0; j < 2; ++j) {  // Σ error · x/σ + w·σ, x/σ the standardised column
    const double slope = (rows.select(1, j) * error).sum().item<double>() / deviation[j].item<double>();
    EXPECT_NEAR(slope + (w[j] * deviation[j]).item<double>(), 0, 1e-7);
  }
}

TEST(Logistic, SeparableRowsAndConstantColumnsGiveFiniteCoefficients) {
  const at::Tensor ones = at::ones({5, 1});
  const at::Tensor w = fit_logistic(at::cat({ones, ones}, 1), at::cat({-ones, ones}, 1));
  EXPECT_TRUE(at::isfinite(w).all().item<bool>());
  EXPECT_GT(w[0].item<double>(), 0);
  EXPECT_GT(logistic_logits(w, at::ones({1, 2})).item<double>(), 0);
}

}  // namespace
}  // namespace poem

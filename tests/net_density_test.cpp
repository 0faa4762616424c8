// CCU's network: densities of pixels, and what they do to the softmax.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/safetensors.h"
#include "net/weights.h"
#include "poem/network.h"
#include "poem/objective.h"
#include "poem/random.h"
#include "temporary_folder.h"

namespace poem {
namespace {

constexpr int64_t kClasses = 3;

NetworkSpec spec() {
  NetworkSpec s;
  s.name = "mlp";
  s.hidden = {8};
  s.channels = 2;
  s.pixels = 4;
  s.mean = s.std = {100, 100};
  s.head = HeadKind::kDensity;
  s.components = 4;
  s.density_rate = 1e-3;
  s.classes = kClasses + 2;
  return s;
}

// Correlated pixels around `centre`, so that whitening has something to do.
at::Tensor images(uint64_t key, int64_t n, double centre, double deviation) {
  Stream stream(8, "images", key);
  at::Tensor x = at::empty({n, 2, 2, 2});
  auto* p = x.data_ptr<float>();
  for (int64_t i = 0; i < n; ++i) {
    const double common = stream.normal();
    for (int j = 0; j < 8; ++j) {
      *p++ = static_cast<float>(
          std::clamp(centre + deviation * (common + 0.5 * (1 + j) * stream.normal()), 0.0, 255.0));
    }
  }
  return x;
}

std::unique_ptr<Network> prepared() {
  auto network = make_network(spec(), 3);
  network->prepare(images(1, 400, 120, 10), images(2, 300, 90, 30));
  return network;
}

at::Tensor buffer(const Network& network, const std::string& name) {
  for (const auto& [key, tensor] : network.buffers()) {
    if (key == name) return tensor.detach().to(at::kDouble);
  }
  throw std::runtime_error(name);
}

// log Σ_k α_k σ_k^{−D} exp(−‖u−μ_k‖² / 2σ_k²), term by term.
double log_density(const Network& network, const std::string& side, const at::Tensor& image) {
  const at::Tensor u = (image.flatten().to(at::kDouble) / 255 - buffer(network, "density.centre"))
                           .unsqueeze(0)
                           .mm(buffer(network, "density.whiten"))
                           .squeeze(0);
  const at::Tensor means = buffer(network, side + "means"),
                   variances = buffer(network, side + "log_variances"),
                   weights = buffer(network, side + "log_weights");
  double sum = 0, weight_sum = 0;
  for (int64_t k = 0; k < means.size(0); ++k) weight_sum += std::exp(weights[k].item<double>());
  for (int64_t k = 0; k < means.size(0); ++k) {
    const double variance = std::exp(variances[k].item<double>());
    const double square = (u - means[k]).square().sum().item<double>();
    sum += std::exp(weights[k].item<double>()) / weight_sum * std::pow(variance, -4) *
           std::exp(-square / (2 * variance));
  }
  return std::log(sum);
}

TEST(Density, WhitensIdImages) {
  const auto network = prepared();
  const at::Tensor x = images(1, 400, 120, 10).flatten(1).to(at::kDouble) / 255;
  const at::Tensor u = (x - buffer(*network, "density.centre")).mm(buffer(*network, "density.whiten"));
  const at::Tensor covariance = u.t().mm(u) / 400;
  EXPECT_TRUE(at::allclose(covariance, at::eye(8, at::kDouble), 1e-2, 1e-2)) << covariance;
}

TEST(Density, OutputsAreTheMixedProbabilitiesAndTheDensities) {
  const auto network = prepared();
  network->train(false);
  const at::NoGradGuard no_grad;
  const at::Tensor x = images(5, 6, 115, 12);
  const at::Tensor features = network->features(x);
  ASSERT_EQ(features.size(1), network->feature_count() + 2);
  const at::Tensor out = network->logits(features);
  ASSERT_EQ(out.size(1), kClasses + 2);
  NetworkSpec plain = spec();
  plain.head = HeadKind::kLinear;
  plain.classes = kClasses;
  const auto inner = make_network(plain, 3);  // the same draws
  EXPECT_TRUE(at::equal(features.narrow(1, 0, network->feature_count()), inner->features(x)));
  const at::Tensor p = at::softmax(inner->logits(inner->features(x)), 1).to(at::kDouble);
  for (int64_t i = 0; i < 6; ++i) {
    const double in = log_density(*network, "density.in.", x[i]),
                 outlier = log_density(*network, "density.out.", x[i]);
    EXPECT_NEAR(out[i][kClasses].item<double>(), in, 1e-3 * std::abs(in) + 1e-3);
    EXPECT_NEAR(out[i][kClasses + 1].item<double>(), outlier, 1e-3 * std::abs(outlier) + 1e-3);
    for (int64_t k = 0; k < kClasses; ++k) {
      const double mixed = (p[i][k].item<double>() * std::exp(in) + std::exp(outlier) / kClasses) /
                           (std::exp(in) + std::exp(outlier));
      EXPECT_NEAR(std::exp(out[i][k].item<double>()), mixed, 2e-3);
    }
  }
  EXPECT_TRUE(at::allclose(out.narrow(1, 0, kClasses).exp().sum(1), at::ones({6}), 1e-4, 1e-4));
}

TEST(Density, FarFromIdImagesThePredictionIsUniform) {
  const auto network = prepared();
  network->train(false);
  const at::NoGradGuard no_grad;
  at::Tensor far = at::zeros({1, 2, 2, 2});
  far[0][0].fill_(255);
  const at::Tensor p = network->logits(network->features(far)).narrow(1, 0, kClasses).exp();
  EXPECT_TRUE(at::allclose(p, at::full({1, kClasses}, 1.0 / kClasses), 0, 1e-5)) << p;
}

// Every mean, variance and weight of both mixtures, by two-sided differences of CCU's loss in float64; and a
// step goes along them.
TEST(Density, GradientsOfTheMixturesEqualDifferences) {
  const auto network = prepared();
  for (const auto& named : {network->parameters(), network->buffers()}) {
    for (const auto& [name, tensor] : named) tensor.set_data(tensor.detach().to(at::kDouble));
  }
  ObjectiveSettings settings;
  settings.name = "ccu";
  const auto objective = make_objective(settings);
  const at::Tensor id = images(5, 10, 115, 12), outliers = images(6, 8, 95, 25);
  const at::Tensor labels = at::arange(10, at::kLong).remainder(kClasses);
  const auto loss = [&] {
    const auto outputs = [&](const at::Tensor& x) { return network->logits(network->features(x)); };
    return (*objective)(outputs(id), labels, outputs(outliers), {}).total;
  };
  loss().backward();
  const at::NoGradGuard no_grad;
  constexpr double kStep = 1e-5;
  int64_t checked = 0;
  std::map<std::string, at::Tensor> stepped;
  for (const auto& [name, tensor] : network->buffers()) {
    if (!tensor.requires_grad()) continue;
    ASSERT_TRUE(tensor.grad().defined()) << name;
    stepped[name] = tensor - spec().density_rate * tensor.grad();
    const at::Tensor flat = tensor.detach().view({-1}), gradient = tensor.grad().view({-1});
    EXPECT_GT(gradient.abs().max().item<double>(), 1e-3) << name << " does not matter here";
    for (int64_t i = 0; i < flat.numel(); ++i, ++checked) {
      const double old = flat[i].item<double>();
      flat[i] = old + kStep;
      const double above = loss().item<double>();
      flat[i] = old - kStep;
      const double below = loss().item<double>();
      flat[i] = old;
      EXPECT_NEAR(gradient[i].item<double>(), (above - below) / (2 * kStep), 1e-7) << name << " " << i;
    }
  }
  EXPECT_EQ(checked, 2 * (4 * 8 + 4 + 4));
  network->after_step();
  stepped.erase("density.out.log_variances");  // the next test
  for (const auto& [name, expected] : stepped)
    EXPECT_TRUE(at::allclose(buffer(*network, name), expected, 1e-12, 1e-12)) << name;
}

TEST(Density, AStepFollowsTheGradientAndKeepsOutliersWide) {
  const auto network = prepared();
  const at::Tensor x = images(5, 10, 115, 12);
  const auto loss = [&] { return -network->features(x).narrow(1, network->feature_count(), 2).mean(); };
  const double before = loss().item<double>();
  const at::Tensor means = buffer(*network, "density.in.means");
  for (int i = 0; i < 20; ++i) {
    loss().backward();
    network->after_step();
    const double widest = buffer(*network, "density.in.log_variances").max().item<double>();
    EXPECT_GE(buffer(*network, "density.out.log_variances").min().item<double>(),
              widest + std::log(4.0) - 1e-5);
  }
  EXPECT_LT(loss().item<double>(), before);
  EXPECT_FALSE(at::allclose(buffer(*network, "density.in.means"), means, 0, 1e-7));
}

TEST(Density, SurvivesAFile) {
  const auto network = prepared();
  TemporaryFolder folder;
  TensorFile file;
  store_weights(*network, "", file);
  write_safetensors(folder / "network", file);
  const auto copy = make_network(spec(), 99);
  load_weights(*copy, "", read_safetensors(folder / "network"));
  const at::Tensor x = images(5, 6, 115, 12);
  EXPECT_TRUE(at::equal(network->logits(network->features(x)), copy->logits(copy->features(x))));
}

TEST(Projection, IsTwoLayersAfterTheSameBackbone) {
  NetworkSpec s = spec();
  s.head = HeadKind::kLinear;
  const auto plain = make_network(s, 3);
  s.head = HeadKind::kProjection;
  s.classes = 16;
  const auto projected = make_network(s, 3);
  const at::Tensor x = images(5, 6, 115, 12);
  const at::Tensor features = projected->features(x);
  EXPECT_TRUE(at::equal(features, plain->features(x)));
  EXPECT_EQ(projected->parameters().size(), plain->parameters().size() + 2);
  EXPECT_EQ(projected->logits(features).sizes(), (std::vector<int64_t>{6, 16}));
}

}  // namespace
}  // namespace poem

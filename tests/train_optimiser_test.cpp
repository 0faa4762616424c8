#include "train/optimiser.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "poem/random.h"

namespace poem {
namespace {

std::unique_ptr<Network> tiny_network() {
  NetworkSpec spec;
  spec.name = "mlp";
  spec.hidden = {3};
  spec.channels = 2;
  spec.classes = 2;
  spec.mean = spec.std = {1, 1};
  return make_network(spec, 4);
}

TEST(Nesterov, FollowsTheScalarRecursion) {
  const auto network = tiny_network();
  const double momentum = 0.9, decay = 0.01;
  Nesterov optimiser(*network, momentum, decay);
  struct Scalar {
    double p, v = 0;
  };
  std::vector<Scalar> expected;
  for (const auto& [name, parameter] : network->parameters()) {
    const at::Tensor flat = parameter.detach().view({-1});
    for (int64_t i = 0; i < flat.numel(); ++i) expected.push_back({flat[i].item<double>()});
  }
  Stream stream(1, "gradients");
  for (const double rate : {0.1, 0.1, 0.02, 0.5, 0.0, 0.1}) {
    size_t next = 0;
    for (auto& [name, parameter] : network->parameters()) {
      at::Tensor gradient = at::empty_like(parameter, at::kFloat).detach();
      for (int64_t i = 0; i < gradient.numel(); ++i) {
        const auto g = static_cast<float>(stream.normal());
        gradient.view({-1})[i] = g;
        Scalar& s = expected[next++];
        const double total = g + decay * s.p;
        s.v = momentum * s.v + total;
        s.p -= rate * (total + momentum * s.v);
      }
      at::Tensor(parameter).mutable_grad() = gradient;
    }
    optimiser.set_rate(rate);
    optimiser.step();
    next = 0;
    for (const auto& [name, parameter] : network->parameters()) {
      EXPECT_FALSE(parameter.grad().defined());  // cleared for the next batch
      for (int64_t i = 0; i < parameter.numel(); ++i) {
        EXPECT_NEAR(parameter.detach().view({-1})[i].item<double>(), expected[next++].p, 1e-5) << name;
      }
    }
    next = 0;
    for (const auto& [name, velocity] : optimiser.velocities()) {
      for (int64_t i = 0; i < velocity.numel(); ++i)
        EXPECT_NEAR(velocity.view({-1})[i].item<double>(), expected[next++].v, 1e-5) << name;
    }
  }
}

TEST(Nesterov, ThreeStepsOnAParabolaHaveAClosedForm) {
  const auto network = tiny_network();
  const double m = 0.8, decay = 0.05, rate = 0.1, curvature = 0.7;
  Nesterov optimiser(*network, m, decay);
  at::Tensor p = network->parameters().front().second;
  const at::Tensor p0 = p.detach().to(at::kDouble);
  for (int step = 0; step < 3; ++step) {
    for (const auto& [name, parameter] : network->parameters())
      (0.5 * curvature * parameter * parameter).sum().backward();
    optimiser.set_rate(rate);
    optimiser.step();
  }
  const double c = curvature + decay;
  const at::Tensor p1 = p0 * (1 - rate * c * (1 + m));
  const at::Tensor p2 = p1 - rate * c * ((1 + m) * p1 + m * m * p0);
  const at::Tensor p3 = p2 - rate * c * ((1 + m) * p2 + m * m * p1 + m * m * m * p0);
  EXPECT_TRUE(at::allclose(p.detach().to(at::kDouble), p3, 1e-5, 1e-7)) << p << p3;
}

// p₁ = p − f·rate·(1 + m)·g, g = ∇ + decay·p, with f = 1 for the last layer.
TEST(Nesterov, TheBackboneHasItsOwnRate) {
  const auto network = tiny_network();
  const double m = 0.8, decay = 0.05, rate = 0.1, factor = 0.25;
  Nesterov optimiser(*network, m, decay, factor);
  std::vector<at::Tensor> expected;
  for (const auto& [name, parameter] : network->parameters()) {
    parameter.mutable_grad() = at::full_like(parameter, 3);
    const double own = name.rfind("linear.", 0) == 0 ? 1 : factor;
    const at::Tensor p = parameter.detach().to(at::kDouble);
    expected.push_back(p - own * rate * (1 + m) * (3 + decay * p));
  }
  optimiser.set_rate(rate);
  optimiser.step();
  const auto parameters = network->parameters();
  ASSERT_EQ(parameters.back().first, "linear.bias");
  for (size_t i = 0; i < parameters.size(); ++i)
    EXPECT_TRUE(at::allclose(parameters[i].second.detach().to(at::kDouble), expected[i], 1e-6, 1e-7))
        << parameters[i].first;
}

TEST(Nesterov, VelocitiesAreNamedAsTheParameters) {
  const auto network = tiny_network();
  const Nesterov optimiser(*network, 0.9, 0);
  ASSERT_EQ(optimiser.velocities().size(), network->parameters().size());
  for (size_t i = 0; i < optimiser.velocities().size(); ++i) {
    EXPECT_EQ(optimiser.velocities()[i].first, network->parameters()[i].first);
    EXPECT_EQ(optimiser.velocities()[i].second.abs().sum().item<double>(), 0);
  }
}

TEST(LearningRate, DropsAtEachMilestone) {
  TrainSettings settings;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0.4999), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0.5), 0.01);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0.7499), 0.01);
  EXPECT_NEAR(learning_rate(settings, 10, 0.75), 0.001, 1e-15);
  EXPECT_NEAR(learning_rate(settings, 10, 0.9), 0.0001, 1e-16);
  EXPECT_NEAR(learning_rate(settings, 10, 1), 0.0001, 1e-16);
  settings.milestones = {};
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 1), 0.1);
}

TEST(LearningRate, FallsAsACosine) {
  TrainSettings settings;
  settings.schedule = Schedule::kCosine;
  settings.learning_rate = 0.2;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0), 0.2);
  EXPECT_NEAR(learning_rate(settings, 10, 0.25), 0.1 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_NEAR(learning_rate(settings, 10, 1.0 / 3), 0.15, 1e-15);
  EXPECT_NEAR(learning_rate(settings, 10, 0.5), 0.1, 1e-15);
  EXPECT_NEAR(learning_rate(settings, 10, 1), 0, 1e-15);
}

TEST(LearningRate, RisesInTheWarmUpAndThenFollowsTheSchedule) {
  TrainSettings settings;
  settings.learning_rate = 0.5;
  settings.schedule = Schedule::kCosine;
  settings.warmup = 2;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0), 0.005);
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0.1), 0.5 * (0.01 + 0.99 / 2));
  EXPECT_NEAR(learning_rate(settings, 10, 0.2), 0.25 * (1 + std::cos(M_PI * 0.2)), 1e-12);
  settings.warmup = 0;
  EXPECT_DOUBLE_EQ(learning_rate(settings, 10, 0), 0.5);
}

TEST(Nesterov, ResetForgetsTheVelocity) {
  const auto stepped = [](bool reset) {
    NetworkSpec spec;
    spec.name = "mlp";
    spec.hidden = {2};
    spec.channels = 1;
    spec.mean = spec.std = {1};
    const auto network = make_network(spec, 1);
    Nesterov optimiser(*network, 0.9, 0);
    for (int step = 0; step < 2; ++step) {
      if (step == 1 && reset) optimiser.reset();
      for (const auto& [name, parameter] : network->parameters()) {
        parameter.mutable_grad() = at::ones_like(parameter);
      }
      optimiser.set_rate(0.1);
      optimiser.step();
    }
    return network->parameters().front().second.clone();
  };
  // Without it the second step is 0.1·(1 + 0.9·1.9), with it 0.1·(1 + 0.9), as the first was.
  EXPECT_TRUE(at::allclose(stepped(true) - stepped(false), at::full({2, 1}, 0.1 * 0.9 * 0.9)));
}

}  // namespace
}  // namespace poem

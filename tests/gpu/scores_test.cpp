// Scores that are computed where the network is, against the same on the CPU.
#include "poem/scores.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <optional>

#include "poem/detector.h"
#include "poem/fit.h"
#include "poem/read.h"

namespace poem {
namespace {

const at::Device kGpu(at::kCUDA, 0);

Detector small_detector() {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = 10;
  spec.classes = 8;
  Detector detector{make_network(spec, 5), nullptr, std::nullopt, {}, 32};
  for (int i = 0; i < 8; ++i) detector.class_names.push_back(std::to_string(i));
  return detector;
}

// Of one set of features: only the score itself is computed elsewhere.
TEST(GpuScores, KnnAgreesWithTheCpu) {
  at::manual_seed(1);
  Training training;
  training.features = at::rand({70000, 64});  // more than one block
  const auto knn = make_fitted_score("knn", training, /*only=*/true);
  const Detector detector = small_detector();
  detector.network->to(kGpu);
  Batch batch;
  batch.features = at::rand({300, 64});
  const at::Tensor on_cpu = (*knn)(batch);
  batch.network = detector.network.get();
  const at::Tensor on_gpu = (*knn)(batch);
  ASSERT_TRUE(on_gpu.is_cpu());
  EXPECT_TRUE(at::allclose(on_gpu, on_cpu, 1e-3, 1e-4));
  EXPECT_FALSE(on_cpu.eq(on_cpu[0]).all().item<bool>());
}

// Convolutions round to TF32, so features differ a little.
TEST(GpuScores, ADetectorRanksImagesAsOnTheCpu) {
  const at::NoGradGuard no_grad;
  const IdImages id{read_images("world:train:600", {}), read_images("world:test:100", {})};
  const ImageSet test = read_images("world:test:200", {});
  const Detector here = small_detector(), there = small_detector();
  there.network->to(kGpu);
  for (const char* name : {"knn", "vim", "mahalanobis"}) {
    Detector on_cpu = here, on_gpu = there;
    on_cpu.score = fit_scores({name}, here, id).front();
    on_gpu.score = fit_scores({name}, there, id).front();
    const at::Tensor a = on_cpu.scores(test), b = on_gpu.scores(test);
    const at::Tensor both = at::stack({a, b}).to(at::kDouble);
    EXPECT_GT(at::corrcoef(both)[0][1].item<double>(), 0.98) << name;
  }
}

}  // namespace
}  // namespace poem

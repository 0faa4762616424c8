// Features from files: what is read, converted and refused before a score is fitted.
#include "detect/posthoc.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "core/npy.h"
#include "expect_error.h"
#include "temporary_folder.h"

namespace poem {
namespace {

at::Tensor normal(std::vector<int64_t> sizes, uint64_t seed) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::TensorOptions(at::kDouble));
}

class FeatureFiles : public ::testing::Test {
 protected:
  FeatureFiles() {
    write_npy(folder / "labels.npy", at::arange(60).remainder(3));
    write(normal({60, 4}, 1), normal({20, 4}, 2), normal({20, 4}, 3), normal({3, 4}, 4));
  }

  void write(const at::Tensor& train, const at::Tensor& id, const at::Tensor& ood, const at::Tensor& weight) {
    write_npy(folder / "train.npy", train);
    write_npy(folder / "id.npy", id);
    write_npy(folder / "ood.npy", ood);
    write_npz(folder / "head.npz", {{"weight", weight}, {"bias", at::zeros({weight.size(0)}, at::kDouble)}});
  }

  FeatureData read() const {
    return read_feature_data({folder / "train.npy",
                              folder / "labels.npy",
                              folder / "head.npz",
                              folder / "id.npy",
                              {{"ood", folder / "ood.npy"}}});
  }

  TemporaryFolder folder;
};

TEST_F(FeatureFiles, AreFloat32) {
  const FeatureData data = read();
  EXPECT_TRUE(data.train.equal(normal({60, 4}, 1).to(at::kFloat)));
  EXPECT_TRUE(data.id.equal(normal({20, 4}, 2).to(at::kFloat)));
  write_npy(folder / "id.npy", normal({20, 4}, 2).to(at::kHalf));
  EXPECT_TRUE(read().id.equal(normal({20, 4}, 2).to(at::kHalf).to(at::kFloat)));
}

// Around 1, neighbours in float32 are 6e-8 apart: nothing is left of what tells these rows apart.
TEST_F(FeatureFiles, ThatFloat32CannotTellApartAreAnError) {
  at::Tensor train = normal({60, 4}, 1), id = normal({20, 4}, 2);
  train.select(1, 2).mul_(1e-8).add_(1);
  id.select(1, 2).mul_(1e-8).add_(1);
  write(train, id, normal({20, 4}, 3), normal({3, 4}, 4));
  expect_error([&] { read(); }, {"train.npy", "feature 2 varies by 1e-08", "float32", "subtract its mean"});
  train.select(1, 2).fill_(1. / 3);  // one that never varies loses nothing
  write(train, id, normal({20, 4}, 3), normal({3, 4}, 4));
  EXPECT_NO_THROW(read());
}

TEST_F(FeatureFiles, ThatOverflowFloat32AreAnError) {
  at::Tensor ood = normal({20, 4}, 3), weight = normal({3, 4}, 4);
  ood[3][1] = 1e39;
  write(normal({60, 4}, 1), normal({20, 4}, 2), ood, weight);
  expect_error([&] { read(); }, {"ood.npy", "feature 1 of row 3", "float32"});
  weight[0][0] = 1e39;
  write(normal({60, 4}, 1), normal({20, 4}, 2), normal({20, 4}, 3), weight);
  expect_error([&] { read(); }, {"head.npz", "weight", "not finite in float32"});
}

}  // namespace
}  // namespace poem

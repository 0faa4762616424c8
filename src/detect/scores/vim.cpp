// ViM (Wang et al. 2022): energy less a virtual logit, the length of what a feature has outside of the
// principal space of the training features.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "detect/fit_checks.h"
#include "detect/gaussians.h"
#include "poem/objective.h"
#include "poem/scores.h"

namespace poem {
namespace {

constexpr int64_t kBlock = 4096;
constexpr double kRounding = 1e-7;  // float32's, as a share

// The dimension of the principal space of m features.
int64_t principal_dimension(int64_t m) { return m >= 2048 ? 1000 : m >= 768 ? 512 : m / 2; }

class Vim : public Score {
 public:
  void fit(const Training& training) override {
    check_lengths(training.features);
    const int64_t m = training.features.size(1);
    const at::Tensor weight = training.head.weight.to(at::kDouble), bias = training.head.bias.to(at::kDouble);
    origin_ = -at::linalg_pinv(weight).mv(bias);  // where the logits are as near to 0 as can be
    // Eigenvalues ascend: the first directions are those outside of the principal space.
    const at::Tensor directions =
        std::get<1>(at::linalg_eigh(scatter_matrix(training.features, origin_) / training.features.size(0)));
    outside_ = directions.narrow(1, 0, m - principal_dimension(m)).contiguous();
    double largest = 0, length = 0, whole = 0;  // Σ max z, Σ ‖residual‖ and Σ ‖h − origin‖
    for (const at::Tensor& h : training.features.split(kBlock)) {
      largest += training.head(h).amax(1).sum(at::kDouble).item<double>();
      length += residual(h).sum().item<double>();
      whole += (h.to(at::kDouble) - origin_).norm(2, 1).sum().item<double>();
    }
    if (length <= kRounding * whole)
      throw Unfit(
          fmt::format("{} training rows of {} features have no component outside of {} principal directions",
                      training.features.size(0), m, principal_dimension(m)));
    alpha_ = at::scalar_tensor(largest / length, at::kDouble);
  }

  at::Tensor operator()(const Batch& batch) const override {
    return (-energy(batch.logits.to(at::kDouble)) - alpha_ * residual(batch.features)).to(at::kFloat);
  }

 private:
  at::Tensor residual(const at::Tensor& features) const {
    return (features.to(at::kDouble) - origin_).mm(outside_).norm(2, 1);
  }
  State state() override { return {{"origin", &origin_}, {"outside", &outside_}, {"alpha", &alpha_}}; }

  at::Tensor origin_, outside_, alpha_;  // m, m×(m − D), scalar; float64
};

}  // namespace

std::unique_ptr<Score> make_vim() { return std::make_unique<Vim>(); }

}  // namespace poem

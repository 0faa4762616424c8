#include "dist/batch_norm.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace poem {
namespace {

thread_local const Team* active = nullptr;

// One number per channel, shaped so that it applies to n×C×….
at::Tensor per_channel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> shape(x.dim(), 1);
  shape[1] = -1;
  return values.to(x.scalar_type()).view(shape);
}

struct Moments {
  at::Tensor mean, variance;  // float64, one per channel; the variance is that of the batch itself
  at::Tensor count;           // float64, values per channel; a tensor, so that no GPU is waited for
};

// Σx, Σx² and the number of values over all ranks, from each rank's own mean and variance.
Moments moments_of(const at::Tensor& x, const Team& team) {
  const int64_t channels = x.size(1);
  const at::Tensor sums = at::zeros({2 * channels + 1}, x.options().dtype(at::kDouble));
  if (x.numel() > 0) {
    const auto [mean, variance] = at::batch_norm_update_stats(x, {}, {}, 0);
    const auto count = static_cast<double>(x.numel() / channels);
    const at::Tensor centre = mean.to(at::kDouble);
    sums.narrow(0, 0, channels).copy_(centre * count);
    sums.narrow(0, channels, channels).copy_((variance.to(at::kDouble) + centre.square()) * count);
    sums[2 * channels].fill_(count);
  }
  team.sum(sums);
  const at::Tensor count = sums[2 * channels];
  const at::Tensor mean = sums.narrow(0, 0, channels) / count;
  return {mean, (sums.narrow(0, channels, channels) / count - mean.square()).clamp_min(0), count};
}

// With fixed statistics BatchNorm is one pass over x, and its gradient one more; LibTorch has both. What is
// missing in training, that the statistics depend on x, is added in backward().
struct Normalise : torch::autograd::Function<Normalise> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& mean,
                            const at::Tensor& variance, const at::Tensor& count, double epsilon,
                            const Team* team) {
    context->save_for_backward({x, weight, mean, variance, count});
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["team"] = reinterpret_cast<int64_t>(team);
    if (x.numel() == 0) return at::empty_like(x);
    return std::get<0>(at::native_batch_norm(x, weight, bias, mean, variance, false, 0, epsilon));
  }

  static std::vector<at::Tensor> backward(torch::autograd::AutogradContext* context,
                                          const std::vector<at::Tensor>& gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &mean = saved[2], &variance = saved[3],
                     &count = saved[4];
    const double epsilon = context->saved_data["epsilon"].toDouble();
    const auto* team = reinterpret_cast<const Team*>(context->saved_data["team"].toInt());
    // gy; Σ gy·x̂ and Σ gy of this rank, which are the gradients of weight and bias
    at::Tensor gradient = at::zeros_like(x), by_weight = at::zeros_like(weight),
               by_bias = at::zeros_like(weight);
    if (x.numel() > 0) {
      // The CPU reads mean and variance, a GPU the mean and the inverse deviation.
      std::tie(gradient, by_weight, by_bias) =
          at::native_batch_norm_backward(gradients[0], x, weight, mean, variance, mean,
                                         at::rsqrt(variance + epsilon), false, epsilon, {true, true, true});
    }
    const at::Tensor sums = at::stack({by_weight, by_bias}).to(at::kDouble);
    team->sum(sums);
    // gx = w/σ · (gy − x̂ · Σ gy·x̂ / n − Σ gy / n), x̂ = (x − μ)/σ, σ² = variance + ε
    const at::Tensor inverse = at::rsqrt(variance.to(at::kDouble) + epsilon);
    const at::Tensor scale = weight.to(at::kDouble) * inverse / -count;
    const at::Tensor slope = scale * inverse * sums[0];
    const at::Tensor offset = scale * sums[1] - slope * mean.to(at::kDouble);
    gradient.addcmul_(x, per_channel(slope, x)).add_(per_channel(offset, x));
    return {gradient, by_weight, by_bias, {}, {}, {}, {}, {}};
  }
};

}  // namespace

GlobalBatchNorm::GlobalBatchNorm(Team team) : team_(std::move(team)), before_(active) {
  active = team_.size() > 1 ? &team_ : nullptr;
}
GlobalBatchNorm::~GlobalBatchNorm() { active = before_; }
const Team* GlobalBatchNorm::team() { return active; }

at::Tensor batch_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& running_mean, const at::Tensor& running_var, double momentum,
                      double epsilon, const Team& team) {
  at::Tensor mean, variance, count;
  {
    const at::NoGradGuard no_grad;
    const Moments moments = moments_of(x.detach(), team);
    count = moments.count;
    mean = moments.mean.to(weight.scalar_type());
    variance = moments.variance.to(weight.scalar_type());
    running_mean.lerp_(mean, momentum);
    running_var.lerp_((moments.variance * (count / (count - 1))).to(weight.scalar_type()), momentum);
  }
  return Normalise::apply(x, weight, bias, mean, variance, count, epsilon, &team);
}

}  // namespace poem

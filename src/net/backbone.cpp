#include "net/backbone.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dist/batch_norm.h"
#include "net/weights.h"
#include "poem/error.h"
#include "poem/random.h"
#ifdef POEM_HAS_CUDA
#include "cuda/autocast.h"
#endif

namespace poem {
namespace {

// Images and weights are stored channels last (NHWC), because every network runs faster this way on a CPU
// (docs/performance.md).
constexpr auto kLayout = at::MemoryFormat::ChannelsLast;

at::Tensor per_channel(const std::string& key, const std::vector<double>& values, int64_t channels) {
  if (static_cast<int64_t>(values.size()) != channels)
    throw Error(key, fmt::format("has {} values for images of {} channels", values.size(), channels),
                "give one value per channel");
  return at::tensor(values, at::kFloat).view({channels, 1, 1});
}

}  // namespace

void check_depth(int64_t depth) {
  if (depth >= 10 && depth % 6 == 4) return;
  const int64_t below = std::max<int64_t>(10, depth - (depth + 2) % 6);
  throw Error("network.depth", fmt::format("{} is not 6n+4", depth),
              fmt::format("the nearest valid depths are {} and {}", below, below + 6));
}

Backbone::Backbone(const NetworkSpec& spec, const Weights& weights)
    : Network(spec),
      weights_(weights),
      mean_(per_channel("network.mean", spec.mean, spec.channels)),
      std_(per_channel("network.std", spec.std, spec.channels)) {
  for (double std : spec.std)
    if (!(std > 0)) throw Error("network.std", fmt::format("contains {}", std), "give positive values");
}

at::Tensor Backbone::features(const at::Tensor& images) {
  if (images.dim() != 4 || images.size(1) != spec_.channels || images.size(2) < 1 || images.size(3) < 1)
    throw Error("network.channels",
                fmt::format("images of shape {} do not fit a network of {} channels",
                            fmt::join(images.sizes(), "×"), spec_.channels),
                "give n×channels×height×width");
  // Statistics of all ranks wait for this rank, even if it has no row of the batch.
  const bool awaited = training_ && GlobalBatchNorm::team() != nullptr;
  if (images.size(0) == 0 && !awaited)
    return at::empty({0, feature_count()}, linear_.weight.options().requires_grad(false));
  // Without gradients a frozen backbone runs as in inference, which is faster. A score that needs the
  // gradient of the pixels takes it in eval mode.
  const at::AutoGradMode gradients(at::GradMode::is_enabled() && !(frozen_ && training_));
  const at::Tensor x =
      images.to(linear_.weight.scalar_type(), /*non_blocking=*/true, /*copy=*/false, kLayout);
  const at::Tensor normalised = x.sub(mean_).div_(std_);
#ifdef POEM_HAS_CUDA
  if (bf16_ && x.is_cuda()) {
    const cuda::Autocast autocast;
    return body(normalised).to(at::kFloat);
  }
#endif
  return body(normalised);
}

void Backbone::classify(int64_t features) {
  if (spec_.head == HeadKind::kProjection) projection_ = linear("projection", features, features);
  linear_ = linear("linear", features, spec_.classes);
}

at::Tensor Backbone::logits(const at::Tensor& features) {
  return linear_(projection_ ? (*projection_)(features).relu_() : features);
}

thread_local std::vector<at::Tensor>* Backbone::collected_ = nullptr;

std::vector<at::Tensor> Backbone::layers(const at::Tensor& images) {
  std::vector<at::Tensor> collected;
  struct Collecting {  // ends the collecting even if features() throws
    explicit Collecting(std::vector<at::Tensor>& into) { collected_ = &into; }
    ~Collecting() { collected_ = nullptr; }
  } const collecting(collected);
  collected.push_back(features(images));
  return collected;
}

at::Tensor Backbone::stage(const at::Tensor& x) const {
  if (collected_) collected_->push_back(x.dim() == 4 ? global_average(x) : x);
  return x;
}

void Backbone::to(const at::Device& device) {
  for (auto* named : {&parameters_, &buffers_})
    for (auto& [name, tensor] : *named) tensor.set_data(tensor.to(device));
  mean_ = mean_.to(device);
  std_ = std_.to(device);
}

void Backbone::freeze_backbone() {
  frozen_ = true;
  for (auto& [name, parameter] : parameters_) parameter.requires_grad_(in_head(name));
}

Conv Backbone::conv(const std::string& name, int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  // He et al. 2015 by fan-out, which preserves the variance of gradients through convolution and ReLU.
  const double he = std::sqrt(2.0 / static_cast<double>(kernel * kernel * out));
  const double deviation = conv_deviation_.value_or(he);
  const at::Tensor weight = parameter(name + ".weight", {out, in, kernel, kernel},
                                      [&](Stream& stream) { return deviation * stream.normal(); });
  return {weight, stride, kernel / 2};
}

BatchNorm Backbone::batch_norm(const std::string& name, int64_t channels) {
  return {parameter(name + ".weight", {channels}, [](Stream&) { return 1.0; }),
          parameter(name + ".bias", {channels}, [](Stream&) { return 0.0; }),
          buffer(name + ".running_mean", channels, 0), buffer(name + ".running_var", channels, 1)};
}

Linear Backbone::linear(const std::string& name, int64_t in, int64_t out) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  return {
      parameter(name + ".weight", {out, in}, [&](Stream& stream) { return stream.uniform(-bound, bound); }),
      parameter(name + ".bias", {out}, [](Stream&) { return 0.0; })};
}

at::Tensor Backbone::parameter(const std::string& name, at::IntArrayRef sizes,
                               const std::function<double(Stream&)>& value) {
  at::Tensor tensor;
  if (weights_.file) {
    tensor = stored_tensor(weights_, name, sizes);
  } else if (weights_.shapes) {
    tensor = at::empty(sizes, at::kMeta);
  } else {
    Stream stream(weights_.seed, "init", parameters_.size());
    tensor = at::empty(sizes);
    float* out = tensor.data_ptr<float>();
    for (int64_t i = 0; i < tensor.numel(); ++i) out[i] = static_cast<float>(value(stream));
  }
  if (tensor.dim() == 4) tensor = tensor.contiguous(kLayout);
  parameters_.emplace_back(name, tensor.requires_grad_());
  return tensor;
}

at::Tensor Backbone::buffer(const std::string& name, int64_t channels, double value) {
  buffers_.emplace_back(name, weights_.file ? stored_tensor(weights_, name, {channels})
                                            : at::full({channels}, value, at::kFloat));
  return buffers_.back().second;
}

}  // namespace poem

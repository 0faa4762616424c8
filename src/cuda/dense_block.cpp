#include "cuda/dense_block.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/dense.h"

namespace poem::cuda {
namespace {

Bf16* bits(const at::Tensor& tensor) { return reinterpret_cast<Bf16*>(tensor.data_ptr<at::BFloat16>()); }

// Carves arrays out of one tensor of zeros, each on a boundary of at least 16 bytes. They start at even
// places.
class Arena {
 public:
  int64_t reserve(int64_t count) {
    const int64_t start = size_;
    size_ += (count + 3) / 4 * 4;
    return start;
  }
  void allocate(const at::Tensor& like, at::ScalarType type) { allocate(like, type, size_); }
  void allocate(const at::Tensor& like, at::ScalarType type, int64_t count) {
    zeros_ = at::zeros({count}, like.options().dtype(type));
  }
  int64_t size() const { return size_; }
  const at::Tensor& all() const { return zeros_; }
  template <class Number>
  Number* at(int64_t start) const {
    return zeros_.data_ptr<Number>() + start;
  }

 private:
  int64_t size_ = 0;
  at::Tensor zeros_;
};

// One pass through a block: its memory, and the calls of its kernels in order.
class Pass {
 public:
  Pass(std::vector<LayerTensors> layers, NormTensors norm, const at::Tensor& x, Window window, bool training)
      : layers_(std::move(layers)), norm_(std::move(norm)), window_(window), training_(training) {
    inputs_ = static_cast<int>(x.size(1));
    channels_ = inputs_ + kGrowth * static_cast<int>(layers_.size());
    buffer_ = {nullptr, static_cast<int>(x.size(0)), static_cast<int>(x.size(2)), static_cast<int>(x.size(3)),
               round_up(channels_, 16)};  // rows of whole sectors of 32 bytes
    storage_ = at::empty({int64_t{buffer_.pixels()} * buffer_.stride + kChunk}, x.options());
    buffer_.x = bits(storage_);
    int64_t weights = 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      weight_offsets_.push_back(weights);
      weights += rounded_weight_count(channels_before(i));
    }
    weights_ = at::empty({weights}, x.options());
    if (!training) return;
    x_offset_ = sums_.reserve(channels_);
    x_squared_offset_ = sums_.reserve(channels_);
    for (size_t i = 0; i < layers_.size(); ++i)
      bottleneck_sum_offsets_.push_back(sums_.reserve(2 * kBottleneck));
    sums_.allocate(x, at::kDouble);
  }

  at::Tensor forward(const at::Tensor& x) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    round_all_weights(stream);
    copy_in(buffer_, bits(x), inputs_, training_ ? sums_of(0) : Sums{nullptr, nullptr}, stream);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer layer = arguments(i);
      if (!training_) {
        infer_layer(buffer_, layer, stream);
        continue;
      }
      bottlenecks_.push_back(at::empty({int64_t{buffer_.pixels()} * kBottleneck}, storage_.options()));
      forward_conv1(buffer_, layer, bits(bottlenecks_[i]), bottleneck_sums(i), stream);
      forward_conv2(buffer_, layer, bits(bottlenecks_[i]), sums_of(layer.channels), stream);
    }
    const at::Tensor y = output();
    y.scalar_type() == at::kFloat ? pool(buffer_, pooling(), y.data_ptr<float>(), stream)
                                  : pool(buffer_, pooling(), bits(y), stream);
    if (training_) update_statistics(stream);
    return y;
  }

  // Returns the gradients of x and, layer by layer, of norm1, conv1, norm2, conv2, then of the norm behind
  // the block.
  std::vector<at::Tensor> backward(const at::Tensor& output_gradient) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    reserve_gradients();
    const at::Tensor gradient = at::empty_like(storage_),
                     bottleneck_gradient = at::empty_like(bottlenecks_[0]);
    const NormGradient last = norm_gradient(2 * layers_.size());
    output_gradient.scalar_type() == at::kFloat
        ? pool_backward(buffer_, pooling(), output_gradient.data_ptr<float>(), bits(gradient), last, stream)
        : pool_backward(buffer_, pooling(), bits(output_gradient), bits(gradient), last, stream);
    for (size_t i = layers_.size(); i-- > 0;) {
      const Layer layer = arguments(i);
      const NormGradient norm1 = norm_gradient(2 * i), norm2 = norm_gradient(2 * i + 1);
      backward_conv2(buffer_, layer, bits(bottlenecks_[i]), bits(gradient), readers(i + 1, layer.channels),
                     bits(bottleneck_gradient), norm2, weight_gradient(conv_offsets_[i].conv2), stream);
      backward_conv1(buffer_, layer, bits(bottlenecks_[i]), bits(bottleneck_gradient), norm2, bits(gradient),
                     norm1, weight_gradient(conv_offsets_[i].conv1), stream);
    }
    const at::Tensor input_gradient = empty_image(inputs_, buffer_.height, buffer_.width, at::kBFloat16);
    copy_out(buffer_, bits(gradient), readers(0, 0), inputs_, bits(input_gradient), stream);
    return named_gradients(input_gradient);
  }

  // In the order of backward()'s result, without x.
  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> all;
    for (const LayerTensors& l : layers_) {
      all.insert(all.end(), {l.norm1.weight, l.norm1.bias, l.conv1, l.norm2.weight, l.norm2.bias, l.conv2});
    }
    all.insert(all.end(), {norm_.weight, norm_.bias});
    return all;
  }

 private:
  struct NormOffsets {  // in norm_gradients_
    int64_t weight, bias;
  };
  struct ConvOffsets {  // in conv_gradients_
    int64_t conv1, conv2;
  };

  at::Tensor empty_image(int64_t channels, int64_t height, int64_t width, at::ScalarType type) const {
    return at::empty({buffer_.images, channels, height, width}, storage_.options().dtype(type),
                     at::MemoryFormat::ChannelsLast);
  }
  at::Tensor output() const {
    const bool whole = window_.height == buffer_.height && window_.width == buffer_.width;
    return empty_image(channels_, buffer_.height / window_.height, buffer_.width / window_.width,
                       whole ? at::kFloat : at::kBFloat16);
  }
  int channels_before(size_t layer) const { return inputs_ + kGrowth * static_cast<int>(layer); }
  float pixel_count() const { return static_cast<float>(buffer_.pixels()); }
  Sums sums_of(int channel) const {
    return {sums_.at<double>(x_offset_ + channel), sums_.at<double>(x_squared_offset_ + channel)};
  }
  Sums bottleneck_sums(size_t i) const {
    auto* x = sums_.at<double>(bottleneck_sum_offsets_[i]);
    return {x, x + kBottleneck};
  }

  Norm arguments(const NormTensors& norm, Sums sums) const {
    return {norm.weight.data_ptr<float>(),
            norm.bias.data_ptr<float>(),
            norm.running_mean.data_ptr<float>(),
            norm.running_variance.data_ptr<float>(),
            sums,
            training_ ? pixel_count() : 0};
  }
  Layer arguments(size_t i) const {
    const LayerTensors& l = layers_[i];
    const Sums none{nullptr, nullptr};
    const int channels = channels_before(i);
    const Bf16 *conv1 = bits(weights_) + weight_offsets_[i],
               *conv2_transposed = conv1 + rounded_weight_count(channels) - kConv2Weights;
    return {channels,
            arguments(l.norm1, training_ ? sums_of(0) : none),
            arguments(l.norm2, training_ ? bottleneck_sums(i) : none),
            conv1,
            conv2_transposed - kConv2Weights,
            conv2_transposed};
  }
  void round_all_weights(cudaStream_t stream) const {
    std::vector<LayerWeights> all;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerTensors& l = layers_[i];
      all.push_back({channels_before(i), l.conv1.data_ptr<float>(), l.conv2.data_ptr<float>(),
                     arguments(l.norm2, {nullptr, nullptr}), bits(weights_) + weight_offsets_[i]});
    }
    round_weights(all.data(), static_cast<int>(all.size()), !training_, stream);
  }
  Pool pooling() const {
    return {channels_, static_cast<int>(window_.height), static_cast<int>(window_.width),
            arguments(norm_, training_ ? sums_of(0) : Sums{nullptr, nullptr})};
  }
  void update_statistics(cudaStream_t stream) const {
    std::vector<RunningStatistics> norms;
    const auto add = [&](const NormTensors& norm, Sums sums) {
      norms.push_back({norm.running_mean.data_ptr<float>(), norm.running_variance.data_ptr<float>(), sums,
                       static_cast<int>(norm.weight.size(0))});
    };
    for (size_t i = 0; i < layers_.size(); ++i) {
      add(layers_[i].norm1, sums_of(0));
      add(layers_[i].norm2, bottleneck_sums(i));
    }
    add(norm_, sums_of(0));
    update_running(norms.data(), static_cast<int>(norms.size()), pixel_count(), stream);
  }

  void reserve_gradients() {
    norm_gradients_ = conv_gradients_ = Arena();
    norm_offsets_.clear();
    conv_offsets_.clear();
    const auto norm = [&](const NormTensors& n) {
      const int64_t weight = norm_gradients_.reserve(n.weight.numel());
      norm_offsets_.push_back({weight, norm_gradients_.reserve(n.bias.numel())});
    };
    for (const LayerTensors& l : layers_) {
      norm(l.norm1);
      norm(l.norm2);
      const int64_t conv1 = conv_gradients_.reserve(l.conv1.numel());
      conv_offsets_.push_back({conv1, conv_gradients_.reserve(l.conv2.numel())});
    }
    norm(norm_);
    norm_gradients_.allocate(storage_, at::kDouble);
    // Exact sums cost time, so only a training that must repeat its bits has them.
    exact_ = at::globalContext().deterministicCuDNN();
    conv_gradients_.allocate(storage_, at::kFloat, numbers_per_weight() * conv_gradients_.size());
  }
  NormGradient norm_gradient(size_t i) const {
    return {norm_gradients_.at<double>(norm_offsets_[i].weight),
            norm_gradients_.at<double>(norm_offsets_[i].bias)};
  }
  int64_t numbers_per_weight() const { return exact_ ? 2 : 1; }
  WeightGradient weight_gradient(int64_t offset) const {
    return {conv_gradients_.at<float>(numbers_per_weight() * offset), exact_};
  }
  // The BatchNorms that read `channel` and those behind it: norm1 of the layers from `i` on, and the norm
  // behind the block.
  NormReaders readers(size_t i, int channel) const {
    const Sums sums = sums_of(channel);
    NormReaders list;
    list.statistics = {nullptr, nullptr, nullptr, nullptr, sums, pixel_count()};
    const auto add = [&](const NormTensors& norm, const NormGradient& gradient) {
      list.weight[list.count] = norm.weight.data_ptr<float>() + channel;
      list.weight_gradient[list.count] = gradient.weight + channel;
      list.bias_gradient[list.count++] = gradient.bias + channel;
    };
    for (; i < layers_.size(); ++i) add(layers_[i].norm1, norm_gradient(2 * i));
    add(norm_, norm_gradient(2 * layers_.size()));
    return list;
  }
  // All gradients of the convolutions' weights, at their offsets.
  at::Tensor conv_gradients() const {
    const at::Tensor& sums = conv_gradients_.all();
    if (!exact_) return sums;
    const at::Tensor parts = sums.view({-1, 2, 2});  // a pair of elements, its high or low parts, an element
    return parts.select(1, 0) + parts.select(1, 1);
  }
  std::vector<at::Tensor> named_gradients(const at::Tensor& input_gradient) const {
    const at::Tensor norms = norm_gradients_.all().to(at::kFloat), convs = conv_gradients();
    std::vector<at::Tensor> all = {input_gradient};
    const auto add = [&](const at::Tensor& from, int64_t start, const at::Tensor& like) {
      all.push_back(from.as_strided(like.sizes(), like.strides(), start));
    };
    const auto norm = [&](size_t i, const NormTensors& n) {
      add(norms, norm_offsets_[i].weight, n.weight);
      add(norms, norm_offsets_[i].bias, n.bias);
    };
    for (size_t i = 0; i < layers_.size(); ++i) {
      norm(2 * i, layers_[i].norm1);
      add(convs, conv_offsets_[i].conv1, layers_[i].conv1);
      norm(2 * i + 1, layers_[i].norm2);
      add(convs, conv_offsets_[i].conv2, layers_[i].conv2);
    }
    norm(2 * layers_.size(), norm_);
    return all;
  }

  std::vector<LayerTensors> layers_;
  NormTensors norm_;
  Window window_;
  bool training_;
  int inputs_, channels_;
  BlockBuffer buffer_{};
  at::Tensor storage_;  // the memory of buffer_.x
  at::Tensor weights_;  // of all layers, rounded
  std::vector<int64_t> weight_offsets_;
  std::vector<at::Tensor> bottlenecks_;  // conv1's output, per layer
  Arena sums_;
  int64_t x_offset_ = 0, x_squared_offset_ = 0;  // in sums_: Σx and Σx² of every channel
  std::vector<int64_t> bottleneck_sum_offsets_;  // in sums_, per layer: Σx, then Σx²
  Arena norm_gradients_, conv_gradients_;
  bool exact_ = false;                     // conv_gradients_ has exact sums
  std::vector<NormOffsets> norm_offsets_;  // norm1 and norm2 of each layer, then the norm behind the block
  std::vector<ConvOffsets> conv_offsets_;  // per layer
};

// The step back through a pass, in LibTorch's graph of gradients.
struct DenseBlockBackward : torch::autograd::Node {
  std::unique_ptr<Pass> pass;

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    TORCH_CHECK(pass != nullptr, "dense_block: backward() twice");
    const at::NoGradGuard no_grad;
    auto result = pass->backward(gradients[0].contiguous(at::MemoryFormat::ChannelsLast));
    return {result.begin(), result.end()};
  }
  void release_variables() override { pass.reset(); }
};

}  // namespace

bool fits(const std::vector<LayerTensors>& layers, const at::Tensor& x) {
  constexpr int64_t kMaxChannels = 384;  // of a block, for backward_conv1
  if (layers.empty() || layers.size() > kMaxLayers || !x.is_cuda()) return false;
  const int64_t inputs = layers[0].norm1.weight.size(0), growth = layers[0].conv2.size(0);
  return growth == kGrowth && inputs % 2 == 0 && x.size(2) % 4 == 0 && x.size(3) % 4 == 0 &&
         x.size(3) <= 128 && inputs + growth * static_cast<int64_t>(layers.size()) <= kMaxChannels;
}

at::Tensor dense_block(const std::vector<LayerTensors>& layers, const NormTensors& norm, const at::Tensor& x,
                       Window window, bool training) {
  const c10::cuda::CUDAGuard guard(x.device());
  auto pass = std::make_unique<Pass>(layers, norm, x, window, training);
  const bool learns = training && at::GradMode::is_enabled();
  std::shared_ptr<DenseBlockBackward> node;
  if (learns) {
    node = std::shared_ptr<DenseBlockBackward>(new DenseBlockBackward, torch::autograd::deleteNode);
    torch::autograd::variable_list inputs = {x};
    for (const at::Tensor& parameter : pass->parameters()) inputs.push_back(parameter);
    node->set_next_edges(torch::autograd::collect_next_edges(inputs));
  }
  at::Tensor y;
  {
    const at::NoGradGuard no_grad;
    y = pass->forward(x.detach().contiguous(at::MemoryFormat::ChannelsLast));
  }
  if (learns) {
    node->pass = std::move(pass);
    torch::autograd::set_history(y, node);
  }
  return y;
}

}  // namespace poem::cuda

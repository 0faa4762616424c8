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

// Carves arrays out of one tensor of float32 zeros, each on a boundary of 16 bytes.
class Arena {
 public:
  int64_t reserve(int64_t count) {
    const int64_t start = size_;
    size_ += (count + 3) / 4 * 4;
    return start;
  }
  void allocate(const at::Tensor& like) { zeros_ = at::zeros({size_}, like.options().dtype(at::kFloat)); }
  float* at(int64_t start) const { return zeros_.data_ptr<float>() + start; }
  at::Tensor view(int64_t start, const at::Tensor& shape) const {
    return zeros_.as_strided(shape.sizes(), shape.strides(), start);
  }

 private:
  int64_t size_ = 0;
  at::Tensor zeros_;
};

// One pass through a block: its buffers, and the kernels in order.
class Pass {
 public:
  Pass(std::vector<LayerTensors> layers, NormTensors norm, const at::Tensor& x, Window window, bool training)
      : layers_(std::move(layers)), norm_(std::move(norm)), window_(window), training_(training) {
    inputs_ = static_cast<int>(x.size(1));
    channels_ = inputs_ + kGrowth * static_cast<int>(layers_.size());
    block_ = {nullptr,
              static_cast<int>(x.size(0)),
              static_cast<int>(x.size(2)),
              static_cast<int>(x.size(3)),
              (channels_ + 15) / 16 * 16,  // rows of whole sectors of 32 bytes
              nullptr};
    buffer_ = at::empty({int64_t{block_.pixels()} * block_.stride + kChunk}, x.options());
    block_.x = bits(buffer_);
    int64_t weights = 0;
    for (size_t i = 0; i < layers_.size(); ++i) {
      weight_places_.push_back(weights);
      weights += rounded_weights(channels_before(i));
    }
    weights_ = at::empty({weights}, x.options());
    if (!training) return;
    if (at::globalContext().deterministicCuDNN()) {  // then our sums too are the same every time
      rows_ = at::empty({row_floats(channels_)}, x.options().dtype(at::kFloat));
      block_.rows = rows_.data_ptr<float>();
    }
    first_ = sums_.reserve(channels_);
    second_ = sums_.reserve(channels_);
    for (size_t i = 0; i < layers_.size(); ++i) middle_sums_.push_back(sums_.reserve(2 * kBottleneck));
    sums_.allocate(x);
  }

  at::Tensor forward(const at::Tensor& x) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    round_all_weights(stream);
    copy_in(block_, bits(x), inputs_, training_ ? sums_of(0) : Sums{nullptr, nullptr}, stream);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Layer layer = arguments(i);
      if (!training_) {
        infer_layer(block_, layer, stream);
        continue;
      }
      middle_.push_back(at::empty({int64_t{block_.pixels()} * kBottleneck}, buffer_.options()));
      forward_conv1(block_, layer, bits(middle_[i]), middle_sums(i), stream);
      forward_conv2(block_, layer, bits(middle_[i]), sums_of(layer.channels), stream);
    }
    const at::Tensor y = output();
    y.scalar_type() == at::kFloat ? pool(block_, pooling(), y.data_ptr<float>(), stream)
                                  : pool(block_, pooling(), bits(y), stream);
    if (training_) update_statistics(stream);
    return y;
  }

  // The gradients of x and, layer by layer, of norm1, conv1, norm2, conv2, and at last of the norm behind the
  // block.
  std::vector<at::Tensor> backward(const at::Tensor& output_gradient) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    reserve_gradients();
    const at::Tensor gradient = at::empty_like(buffer_), middle_gradient = at::empty_like(middle_[0]);
    const NormGradient last{gradients_.at(norm_places_.back().first),
                            gradients_.at(norm_places_.back().second)};
    output_gradient.scalar_type() == at::kFloat
        ? pool_backward(block_, pooling(), output_gradient.data_ptr<float>(), bits(gradient), last, stream)
        : pool_backward(block_, pooling(), bits(output_gradient), bits(gradient), last, stream);
    for (size_t i = layers_.size(); i-- > 0;) {
      const Layer layer = arguments(i);
      const NormGradient norm1 = norm_gradient(2 * i), norm2 = norm_gradient(2 * i + 1);
      backward_conv2(block_, layer, bits(middle_[i]), bits(gradient), written(layer.channels),
                     later(i + 1, layer.channels), bits(middle_gradient), norm2,
                     gradients_.at(conv_places_[i].second), stream);
      backward_conv1(block_, layer, bits(middle_[i]), bits(middle_gradient), norm2, bits(gradient), norm1,
                     gradients_.at(conv_places_[i].first), stream);
    }
    const at::Tensor input_gradient = empty_image(inputs_, block_.height, block_.width, at::kBFloat16);
    copy_out(block_, bits(gradient), written(0), later(0, 0), inputs_, bits(input_gradient), stream);
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
  at::Tensor empty_image(int64_t channels, int64_t height, int64_t width, at::ScalarType type) const {
    return at::empty({block_.images, channels, height, width}, buffer_.options().dtype(type),
                     at::MemoryFormat::ChannelsLast);
  }
  at::Tensor output() const {
    const bool whole = window_.height == block_.height && window_.width == block_.width;
    return empty_image(channels_, block_.height / window_.height, block_.width / window_.width,
                       whole ? at::kFloat : at::kBFloat16);
  }
  int channels_before(size_t layer) const { return inputs_ + kGrowth * static_cast<int>(layer); }
  float pixel_count() const { return static_cast<float>(block_.pixels()); }
  Sums sums_of(int channel) const { return {sums_.at(first_ + channel), sums_.at(second_ + channel)}; }
  Sums middle_sums(size_t i) const {
    return {sums_.at(middle_sums_[i]), sums_.at(middle_sums_[i] + kBottleneck)};
  }

  Norm arguments(const NormTensors& norm, Sums sums) const {
    Norm n{norm.weight.data_ptr<float>(), norm.bias.data_ptr<float>(), sums.first, sums.second,
           pixel_count()};
    if (!training_) {
      n.first = norm.running_mean.data_ptr<float>();
      n.second = norm.running_variance.data_ptr<float>();
      n.count = 0;
    }
    return n;
  }
  Layer arguments(size_t i) const {
    const LayerTensors& l = layers_[i];
    const Sums none{nullptr, nullptr};
    const int channels = channels_before(i);
    const Bf16 *conv1 = bits(weights_) + weight_places_[i],
               *conv2_back = conv1 + rounded_weights(channels) - kConv2;
    return {channels,
            arguments(l.norm1, training_ ? sums_of(0) : none),
            arguments(l.norm2, training_ ? middle_sums(i) : none),
            conv1,
            conv2_back - kConv2,
            conv2_back};
  }
  void round_all_weights(cudaStream_t stream) const {
    std::vector<Weights> all;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LayerTensors& l = layers_[i];
      all.push_back({channels_before(i), l.conv1.data_ptr<float>(), l.conv2.data_ptr<float>(),
                     arguments(l.norm2, {nullptr, nullptr}), bits(weights_) + weight_places_[i]});
    }
    round_weights(all.data(), static_cast<int>(all.size()), !training_, stream);
  }
  Pool pooling() const {
    return {channels_, static_cast<int>(window_.height), static_cast<int>(window_.width),
            arguments(norm_, training_ ? sums_of(0) : Sums{nullptr, nullptr})};
  }
  // Channels from `channel` on, for what only asks for mean and variance.
  Norm written(int channel) const {
    const Sums sums = sums_of(channel);
    return {nullptr, nullptr, sums.first, sums.second, pixel_count()};
  }

  void update_statistics(cudaStream_t stream) const {
    std::vector<Running> norms;
    const auto add = [&](const NormTensors& norm, Sums sums) {
      norms.push_back({norm.running_mean.data_ptr<float>(), norm.running_variance.data_ptr<float>(),
                       sums.first, sums.second, static_cast<int>(norm.weight.size(0))});
    };
    for (size_t i = 0; i < layers_.size(); ++i) {
      add(layers_[i].norm1, sums_of(0));
      add(layers_[i].norm2, middle_sums(i));
    }
    add(norm_, sums_of(0));
    update_running(norms.data(), static_cast<int>(norms.size()), pixel_count(), stream);
  }

  void reserve_gradients() {
    gradients_ = Arena();
    norm_places_.clear();
    conv_places_.clear();
    const auto norm = [&](const NormTensors& n) {
      const int64_t weight = gradients_.reserve(n.weight.numel());
      norm_places_.emplace_back(weight, gradients_.reserve(n.bias.numel()));
    };
    for (const LayerTensors& l : layers_) {
      norm(l.norm1);
      norm(l.norm2);
      const int64_t conv1 = gradients_.reserve(l.conv1.numel());
      conv_places_.emplace_back(conv1, gradients_.reserve(l.conv2.numel()));
    }
    norm(norm_);
    gradients_.allocate(buffer_);
  }
  NormGradient norm_gradient(size_t i) const {
    return {gradients_.at(norm_places_[i].first), gradients_.at(norm_places_[i].second)};
  }
  // The norms that read `channel` and those behind it: norm1 of the layers from `i` on, and the last.
  Later later(size_t i, int channel) const {
    Later list;
    const auto add = [&](const NormTensors& norm, const NormGradient& sums) {
      list.weight[list.count] = norm.weight.data_ptr<float>() + channel;
      list.weight_sum[list.count] = sums.weight + channel;
      list.bias_sum[list.count++] = sums.bias + channel;
    };
    for (; i < layers_.size(); ++i) add(layers_[i].norm1, norm_gradient(2 * i));
    add(norm_, norm_gradient(2 * layers_.size()));
    return list;
  }
  std::vector<at::Tensor> named_gradients(const at::Tensor& input_gradient) const {
    std::vector<at::Tensor> all = {input_gradient};
    const auto norm = [&](size_t i, const NormTensors& n) {
      all.push_back(gradients_.view(norm_places_[i].first, n.weight));
      all.push_back(gradients_.view(norm_places_[i].second, n.bias));
    };
    for (size_t i = 0; i < layers_.size(); ++i) {
      norm(2 * i, layers_[i].norm1);
      all.push_back(gradients_.view(conv_places_[i].first, layers_[i].conv1));
      norm(2 * i + 1, layers_[i].norm2);
      all.push_back(gradients_.view(conv_places_[i].second, layers_[i].conv2));
    }
    norm(2 * layers_.size(), norm_);
    return all;
  }

  std::vector<LayerTensors> layers_;
  NormTensors norm_;
  Window window_;
  bool training_;
  int inputs_, channels_;
  Block block_{};
  at::Tensor buffer_;   // the block's channels, one row a pixel
  at::Tensor rows_;     // Block::rows
  at::Tensor weights_;  // of all layers, rounded
  std::vector<int64_t> weight_places_;
  std::vector<at::Tensor> middle_;  // what conv1 of each layer gave
  Arena sums_, gradients_;
  int64_t first_ = 0, second_ = 0;  // places in sums_: Σx and Σx² of every channel
  std::vector<int64_t> middle_sums_;
  std::vector<std::pair<int64_t, int64_t>> norm_places_, conv_places_;  // places in gradients_
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

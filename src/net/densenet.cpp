// DenseNet-BC (Huang et al. 2017): three blocks of bottleneck layers. Each layer appends a few new channels
// to all earlier ones; half of the channels pass from one block to the next.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "net/backbone.h"
#include "poem/error.h"
#ifdef POEM_HAS_CUDA
#include "cuda/dense_block.h"
#endif

namespace poem {
namespace {

constexpr int kBlocks = 3;
constexpr int64_t kCachedPixels = 16 * 32 * 32;  // measured: docs/performance.md

class DenseNet : public Backbone {
 public:
  DenseNet(const NetworkSpec& spec, const Weights& weights) : Backbone(spec, weights) {
    check_depth(spec.depth);
    if (spec.growth < 1) throw Error("network.growth", fmt::format("is {}", spec.growth), "give at least 1");
    const int64_t layers = (spec.depth - 4) / 6;
    if (spec.init == Initialisation::kAuthors) conv_deviation_ = std::sqrt(2.0 / static_cast<double>(layers));
    int64_t channels = 2 * spec.growth;
    stem_ = conv("stem", spec.channels, channels, 3);
    for (int block = 0; block < kBlocks; ++block) {
      for (int64_t layer = 1; layer <= layers; ++layer, channels += spec.growth)
        blocks_[block].push_back(make_layer(fmt::format("block{}.layer{}.", block + 1, layer), channels));
      if (block + 1 < kBlocks) {
        transitions_[block] = make_transition(fmt::format("transition{}.", block + 1), channels);
        channels /= 2;
      }
    }
    norm_ = batch_norm("norm", channels);
    classify(channels);
  }

 private:
  struct Layer {  // norm1, ReLU, 1×1 convolution, norm2, ReLU, 3×3 convolution
    BatchNorm norm1, norm2;
    Conv conv1, conv2;
  };
  struct Transition {
    BatchNorm norm;
    Conv conv;
  };

  Layer make_layer(const std::string& name, int64_t in) {
    const int64_t growth = spec_.growth;
    Layer layer;
    layer.norm1 = batch_norm(name + "norm1", in);
    layer.conv1 = conv(name + "conv1", in, 4 * growth, 1);
    layer.norm2 = batch_norm(name + "norm2", 4 * growth);
    layer.conv2 = conv(name + "conv2", 4 * growth, growth, 3);
    return layer;
  }

  Transition make_transition(const std::string& name, int64_t in) {
    const BatchNorm norm = batch_norm(name + "norm", in);
    return {norm, conv(name + "conv", in, in / 2, 1)};
  }

  at::Tensor body(const at::Tensor& images) override {
    const int64_t height = images.size(2), width = images.size(3);
    if (height < 4 || width < 4)
      throw Error(
          "network.name",
          fmt::format("images of {}×{} pixels are too small: densenet halves them twice", height, width),
          "give at least 4×4");
#ifdef POEM_HAS_CUDA
    // Its sums are those of this process.
    const bool alone = GlobalBatchNorm::team() == nullptr;
    if (bf16() && ((training() && alone) || inference()) && !collecting() && cuda_fits(images))
      return extract_bf16(images);
#endif
    if (!inference() || !images.is_cpu() || collecting()) return extract(images);
    // A few images at a time, so that their channels stay in the cache.
    std::vector<at::Tensor> parts;
    for (const at::Tensor& few : images.split(std::max<int64_t>(1, kCachedPixels / (height * width))))
      parts.push_back(extract(few));
    return at::cat(parts);
  }

  at::Tensor extract(const at::Tensor& images) const {
    at::Tensor x = stage(stem_(images));
    for (int i = 0; i < kBlocks; ++i) {
      x = inference() ? infer_block(blocks_[i], x) : train_block(blocks_[i], x);
      if (i + 1 < kBlocks)
        x = stage(at::avg_pool2d(transitions_[i].conv(active(transitions_[i].norm, x)), 2));
    }
    return global_average(active(norm_, x));
  }

#ifdef POEM_HAS_CUDA
  static cuda::NormTensors tensors(const BatchNorm& norm) {
    return {norm.weight, norm.bias, norm.running_mean, norm.running_var};
  }
  static std::vector<cuda::LayerTensors> tensors(const std::vector<Layer>& block) {
    std::vector<cuda::LayerTensors> layers;
    for (const Layer& l : block)
      layers.push_back({tensors(l.norm1), l.conv1.weight, tensors(l.norm2), l.conv2.weight});
    return layers;
  }

  bool cuda_fits(const at::Tensor& images) const {
    return std::all_of(std::begin(blocks_), std::end(blocks_),
                       [&](const auto& block) { return cuda::fits(tensors(block), images); });
  }

  // The same with poem's own kernels. A transition averages before its convolution instead of after it. Both
  // are linear, and only a quarter of the pixels is left to convolve.
  at::Tensor extract_bf16(const at::Tensor& images) const {
    at::Tensor x = stem_(images);
    const auto run_block = [&](int i, const BatchNorm& norm, cuda::Window window) {
      return cuda::dense_block(tensors(blocks_[i]), tensors(norm), x, window, training());
    };
    for (int i = 0; i + 1 < kBlocks; ++i)
      x = transitions_[i].conv(run_block(i, transitions_[i].norm, {2, 2}));
    return run_block(kBlocks - 1, norm_, {x.size(2), x.size(3)}).flatten(1);
  }
#endif

  at::Tensor active(const BatchNorm& norm, const at::Tensor& x) const { return norm(x, training()).relu_(); }

  at::Tensor train_block(const std::vector<Layer>& block, at::Tensor x) const {
    for (const Layer& layer : block) {
      const at::Tensor y = layer.conv1(active(layer.norm1, x));
      x = at::cat({x, layer.conv2(active(layer.norm2, y))}, 1);
    }
    return x;
  }

  // The same without concatenation: each layer writes its channels behind the earlier ones. The second
  // BatchNorm is folded into the convolution in front of it. The first one cannot be folded into a
  // convolution, because a ReLU follows it.
  at::Tensor infer_block(const std::vector<Layer>& block, const at::Tensor& x) const {
    const int64_t growth = spec_.growth, layers = static_cast<int64_t>(block.size());
    int64_t channels = x.size(1);
    const at::Tensor all = at::empty({x.size(0), channels + layers * growth, x.size(2), x.size(3)},
                                     x.options(), x.suggest_memory_format());
    all.narrow(1, 0, channels).copy_(x);
    for (const Layer& layer : block) {
      const at::Tensor scale1 = layer.norm1.scale(), scale2 = layer.norm2.scale();
      const at::Tensor shift1 = layer.norm1.shift(scale1), shift2 = layer.norm2.shift(scale2);
      const at::Tensor seen = all.narrow(1, 0, channels);
      at::Tensor y = at::addcmul(shift1.view({-1, 1, 1}), seen, scale1.view({-1, 1, 1})).relu_();
      y = convolve(y, layer.conv1.weight * scale2.view({-1, 1, 1, 1}), shift2).relu_();
      all.narrow(1, channels, growth).copy_(layer.conv2(y));
      channels += growth;
    }
    return all;
  }

  Conv stem_;
  std::vector<Layer> blocks_[kBlocks];
  Transition transitions_[kBlocks - 1];
  BatchNorm norm_;
};

}  // namespace

std::unique_ptr<Network> make_densenet(const NetworkSpec& spec, const Weights& weights) {
  return std::make_unique<DenseNet>(spec, weights);
}

}  // namespace poem

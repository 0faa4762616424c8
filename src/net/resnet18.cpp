// ResNet-18 (He et al. 2016) with the usual stem for small images: 3×3, stride 1, no pooling.
#include <fmt/format.h>

#include "net/backbone.h"

namespace poem {
namespace {

class ResNet18 : public Backbone {
 public:
  ResNet18(const NetworkSpec& spec, const Weights& weights) : Backbone(spec, weights) {
    int64_t channels = 64;
    stem_ = conv("stem", spec.channels, channels, 3);
    norm_ = batch_norm("norm", channels);
    for (int group = 1; group <= 4; ++group) {
      const int64_t out = int64_t{32} << group;
      for (int layer = 1; layer <= 2; ++layer) {
        const int64_t stride = group > 1 && layer == 1 ? 2 : 1;
        layers_.push_back(make_layer(fmt::format("block{}.layer{}.", group, layer), channels, out, stride));
        channels = out;
      }
    }
    classify(channels);
  }

 private:
  struct Layer {
    Conv conv1, conv2;
    BatchNorm norm1, norm2;
    std::optional<Conv> shortcut;  // only if the shape changes
    BatchNorm shortcut_norm;
  };

  Layer make_layer(const std::string& name, int64_t in, int64_t out, int64_t stride) {
    Layer layer;
    layer.conv1 = conv(name + "conv1", in, out, 3, stride);
    layer.norm1 = batch_norm(name + "norm1", out);
    layer.conv2 = conv(name + "conv2", out, out, 3);
    layer.norm2 = batch_norm(name + "norm2", out);
    if (in != out) {
      layer.shortcut = conv(name + "shortcut", in, out, 1, stride);
      layer.shortcut_norm = batch_norm(name + "shortcut_norm", out);
    }
    return layer;
  }

  at::Tensor apply(const Layer& layer, const at::Tensor& x) const {
    at::Tensor y = layer.norm1(layer.conv1(x), training()).relu_();
    y = layer.norm2(layer.conv2(y), training());
    const at::Tensor shortcut = layer.shortcut ? layer.shortcut_norm((*layer.shortcut)(x), training()) : x;
    return y.add_(shortcut).relu_();
  }

  at::Tensor body(const at::Tensor& images) override {
    at::Tensor x = stage(norm_(stem_(images), training()).relu_());
    for (size_t i = 0; i < layers_.size(); ++i) {
      x = apply(layers_[i], x);
      if (i % 2 == 1 && i + 1 < layers_.size()) x = stage(x);
    }
    return global_average(x);
  }

  Conv stem_;
  BatchNorm norm_;
  std::vector<Layer> layers_;
};

}  // namespace

std::unique_ptr<Network> make_resnet18(const NetworkSpec& spec, const Weights& weights) {
  return std::make_unique<ResNet18>(spec, weights);
}

}  // namespace poem

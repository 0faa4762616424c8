// Wide ResNet (Zagoruyko and Komodakis 2016): pre-activation residual layers, without dropout.
#include <fmt/format.h>

#include "net/backbone.h"
#include "poem/error.h"

namespace poem {
namespace {

class WideResNet : public Backbone {
 public:
  WideResNet(const NetworkSpec& spec, const Weights& weights) : Backbone(spec, weights) {
    check_depth(spec.depth);
    if (spec.width < 1) throw Error("network.width", fmt::format("is {}", spec.width), "give at least 1");
    int64_t channels = 16;
    stem_ = conv("stem", spec.channels, channels, 3);
    for (int block = 1; block <= 3; ++block) {
      const int64_t out = (int64_t{8} << block) * spec.width;
      for (int64_t layer = 1; layer <= (spec.depth - 4) / 6; ++layer) {
        const int64_t stride = block > 1 && layer == 1 ? 2 : 1;
        layers_.push_back(make_layer(fmt::format("block{}.layer{}.", block, layer), channels, out, stride));
        channels = out;
      }
    }
    norm_ = batch_norm("norm", channels);
    classify(channels);
  }

 private:
  struct Layer {
    BatchNorm norm1, norm2;
    Conv conv1, conv2;
    std::optional<Conv> shortcut;  // only if the shape changes
  };

  Layer make_layer(const std::string& name, int64_t in, int64_t out, int64_t stride) {
    Layer layer;
    layer.norm1 = batch_norm(name + "norm1", in);
    layer.conv1 = conv(name + "conv1", in, out, 3, stride);
    layer.norm2 = batch_norm(name + "norm2", out);
    layer.conv2 = conv(name + "conv2", out, out, 3);
    if (in != out) layer.shortcut = conv(name + "shortcut", in, out, 1, stride);
    return layer;
  }

  at::Tensor apply(const Layer& layer, const at::Tensor& x) const {
    const at::Tensor active = layer.norm1(x, training()).relu_();
    const at::Tensor y = layer.norm2(layer.conv1(active), training()).relu_();
    return layer.conv2(y).add_(layer.shortcut ? (*layer.shortcut)(active) : x);
  }

  at::Tensor body(const at::Tensor& images) override {
    at::Tensor x = stage(stem_(images));
    for (size_t i = 1; i <= layers_.size(); ++i) {
      x = apply(layers_[i - 1], x);
      if (i % (layers_.size() / 3) == 0 && i < layers_.size()) x = stage(x);
    }
    return global_average(norm_(x, training()).relu_());
  }

  Conv stem_;
  std::vector<Layer> layers_;
  BatchNorm norm_;
};

}  // namespace

std::unique_ptr<Network> make_wideresnet(const NetworkSpec& spec, const Weights& weights) {
  return std::make_unique<WideResNet>(spec, weights);
}

}  // namespace poem

// ResNets (He et al. 2016). resnet18 has the usual stem for small images: 3×3, stride 1, no pooling.
// resnet18_224 and resnet50 are the networks of torchvision, for images of about 224×224 pixels: a stem of
// 7×7 with stride 2, then max-pooling, and in a bottleneck the 3×3 convolution has the stride ("v1.5").
#include <fmt/format.h>

#include "net/backbone.h"

namespace poem {
namespace {

constexpr int kGroups = 4;

struct Shape {
  bool small_images, bottlenecks;
  int layers[kGroups];
};

class ResNet : public Backbone {
 public:
  ResNet(const NetworkSpec& spec, const Weights& weights, const Shape& shape)
      : Backbone(spec, weights), small_images_(shape.small_images) {
    int64_t channels = 64;
    stem_ = {small_images_ ? conv("stem", spec.channels, channels, 3)
                           : conv("stem", spec.channels, channels, 7, 2),
             batch_norm("norm", channels)};
    for (int group = 0; group < kGroups; ++group) {
      const int64_t width = int64_t{64} << group, out = shape.bottlenecks ? 4 * width : width;
      for (int layer = 0; layer < shape.layers[group]; ++layer) {
        const int64_t stride = group > 0 && layer == 0 ? 2 : 1;
        const std::string name = fmt::format("block{}.layer{}.", group + 1, layer + 1);
        groups_[group].push_back(make_layer(name, channels, width, out, stride));
        channels = out;
      }
    }
    classify(channels);
  }

 private:
  struct Step {
    Conv conv;
    BatchNorm norm;
  };
  struct Layer {
    std::vector<Step> steps;       // with a ReLU between two
    std::optional<Step> shortcut;  // only if the shape changes
  };

  // Two 3×3 convolutions, or a bottleneck: 1×1, 3×3, 1×1.
  Layer make_layer(const std::string& name, int64_t in, int64_t width, int64_t out, int64_t stride) {
    Layer layer;
    const auto add = [&](int64_t from, int64_t to, int64_t kernel, int64_t step_stride) {
      const std::string number = std::to_string(layer.steps.size() + 1);
      const Conv convolution = conv(name + "conv" + number, from, to, kernel, step_stride);
      layer.steps.push_back({convolution, batch_norm(name + "norm" + number, to)});
    };
    if (width == out) {
      add(in, width, 3, stride);
      add(width, out, 3, 1);
    } else {
      add(in, width, 1, 1);
      add(width, width, 3, stride);
      add(width, out, 1, 1);
    }
    if (in != out) {
      const Conv convolution = conv(name + "shortcut", in, out, 1, stride);
      layer.shortcut = {convolution, batch_norm(name + "shortcut_norm", out)};
    }
    return layer;
  }

  at::Tensor apply(const Step& step, const at::Tensor& x) const {
    return step.norm(step.conv(x), training());
  }

  at::Tensor apply(const Layer& layer, const at::Tensor& x) const {
    at::Tensor y = apply(layer.steps[0], x);
    for (size_t i = 1; i < layer.steps.size(); ++i) y = apply(layer.steps[i], y.relu_());
    return y.add_(layer.shortcut ? apply(*layer.shortcut, x) : x).relu_();
  }

  at::Tensor body(const at::Tensor& images) override {
    at::Tensor x = apply(stem_, images).relu_();
    if (!small_images_) x = at::max_pool2d(x, 3, 2, 1);
    for (const std::vector<Layer>& group : groups_) {
      x = stage(x);
      for (const Layer& layer : group) x = apply(layer, x);
    }
    return global_average(x);
  }

  const bool small_images_;
  Step stem_;
  std::vector<Layer> groups_[kGroups];
};

}  // namespace

std::unique_ptr<Network> make_resnet18(const NetworkSpec& spec, const Weights& weights) {
  return std::make_unique<ResNet>(spec, weights, Shape{true, false, {2, 2, 2, 2}});
}

std::unique_ptr<Network> make_resnet18_224(const NetworkSpec& spec, const Weights& weights) {
  return std::make_unique<ResNet>(spec, weights, Shape{false, false, {2, 2, 2, 2}});
}

std::unique_ptr<Network> make_resnet50(const NetworkSpec& spec, const Weights& weights) {
  return std::make_unique<ResNet>(spec, weights, Shape{false, true, {3, 4, 6, 3}});
}

}  // namespace poem

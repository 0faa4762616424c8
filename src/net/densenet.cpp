// DenseNet-BC (Huang et al. 2017): three blocks of bottleneck layers, each layer's few new channels joined to
// all that came before it; half of the channels pass from one block to the next.
#include <fmt/format.h>

#include <cmath>

#include "core/error.h"
#include "net/backbone.h"

namespace poem {
namespace {

constexpr int kBlocks = 3;

class DenseNet : public Backbone {
 public:
  DenseNet(const NetworkSpec& spec, uint64_t seed) : Backbone(spec, seed, at::MemoryFormat::ChannelsLast) {
    check_depth(spec.depth);
    if (spec.growth < 1) throw Error("network.growth", fmt::format("is {}", spec.growth), "give at least 1");
    const int64_t layers = (spec.depth - 4) / 6;
    if (spec.init == "authors") conv_deviation_ = std::sqrt(2.0 / static_cast<double>(layers));
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
  struct Layer {
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
    if (images.size(2) < 4 || images.size(3) < 4)
      throw Error(
          "densenet",
          fmt::format("images of {}×{} pixels vanish when halved twice", images.size(2), images.size(3)),
          "give at least 4×4");
    at::Tensor x = stem_(images);
    for (int block = 0; block < kBlocks; ++block) {
      x = inference() ? infer_block(blocks_[block], x) : train_block(blocks_[block], x);
      if (block + 1 < kBlocks)
        x = at::avg_pool2d(transitions_[block].conv(active(transitions_[block].norm, x)), 2);
    }
    return global_average(active(norm_, x));
  }

  at::Tensor active(const BatchNorm& norm, const at::Tensor& x) const { return norm(x, training()).relu_(); }

  at::Tensor train_block(const std::vector<Layer>& block, at::Tensor x) const {
    for (const Layer& layer : block) {
      const at::Tensor y = layer.conv1(active(layer.norm1, x));
      x = at::cat({x, layer.conv2(active(layer.norm2, y))}, 1);
    }
    return x;
  }

  at::Tensor infer_block(const std::vector<Layer>& block, at::Tensor x) const {
    return train_block(block, x);
  }

  Conv stem_;
  std::vector<Layer> blocks_[kBlocks];
  Transition transitions_[kBlocks - 1];
  BatchNorm norm_;
};

}  // namespace

std::unique_ptr<Network> make_densenet(const NetworkSpec& spec, uint64_t seed) {
  return std::make_unique<DenseNet>(spec, seed);
}

}  // namespace poem

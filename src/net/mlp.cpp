// A perceptron with ReLU, for the two-dimensional world and other flat inputs. Its last hidden layer is φ(x).
#include <fmt/format.h>

#include "net/backbone.h"
#include "poem/error.h"

namespace poem {
namespace {

class Mlp : public Backbone {
 public:
  Mlp(const NetworkSpec& spec, const Weights& weights) : Backbone(spec, weights) {
    if (spec.hidden.empty())
      throw Error("network.hidden", "is empty", "give the width of at least one layer");
    int64_t in = spec.channels * spec.pixels;
    for (int64_t out : spec.hidden) {
      if (out < 1) throw Error("network.hidden", fmt::format("is {}", out), "give at least 1");
      hidden_.push_back(linear(fmt::format("hidden{}", hidden_.size() + 1), in, out));
      in = out;
    }
    classify(in);
  }

 private:
  at::Tensor body(const at::Tensor& images) override {
    if (images.size(2) * images.size(3) != spec_.pixels)
      throw Error("network.pixels",
                  fmt::format("images of {}×{} pixels do not fit a perceptron for {}", images.size(2),
                              images.size(3), spec_.pixels),
                  "resize them or build the network for their size");
    at::Tensor x = images.flatten(1);
    for (size_t i = 0; i + 1 < hidden_.size(); ++i) x = stage(hidden_[i](x).relu_());
    return hidden_.back()(x).relu_();
  }

  std::vector<Linear> hidden_;
};

}  // namespace

std::unique_ptr<Network> make_mlp(const NetworkSpec& spec, const Weights& weights) {
  return std::make_unique<Mlp>(spec, weights);
}

}  // namespace poem

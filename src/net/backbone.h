// What all networks share: named tensors with their initial values, normalisation, and the last linear layer.
// Only files of net/ use it. A network creates its layers in the constructor and defines how a normalised
// batch becomes features:
//
//   class Tiny : public Backbone {
//    public:
//     Tiny(const NetworkSpec& spec, const Weights& weights) : Backbone(spec, weights) {
//       stem_ = conv("stem", spec.channels, 16, 3);
//       classify(16);
//     }
//
//    private:
//     at::Tensor body(const at::Tensor& x) override { return global_average(stage(stem_(x)).relu_()); }
//     Conv stem_;
//   };
//   std::unique_ptr<Network> make_tiny(const NetworkSpec& spec, const Weights& weights) {
//     return std::make_unique<Tiny>(spec, weights);
//   }
// To register it, add its declaration and a line in the registry of network.cpp.
#pragma once
#include <ATen/core/grad_mode.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "net/layers.h"
#include "poem/network.h"

namespace poem {

class Stream;

class Backbone : public Network {
 public:
  at::Tensor features(const at::Tensor& images) final;
  at::Tensor logits(const at::Tensor& features) final;
  int64_t feature_count() const final { return linear_.weight.size(1); }
  std::vector<at::Tensor> layers(const at::Tensor& images) final;
  Named parameters() const final { return parameters_; }
  Named buffers() const final { return buffers_; }
  void train(bool on) final {
    if (training_ != on) training_ = on;  // several threads may judge with one network
  }
  void to(const at::Device& device) final;
  void freeze_backbone() final;
  void use_bf16(bool on) final { bf16_ = on; }

 protected:
  Backbone(const NetworkSpec& spec, const Weights& weights);

  virtual at::Tensor body(const at::Tensor& x) = 0;  // normalised n×C×H×W → n×m; an Error if H×W is too small

  Conv conv(const std::string& name, int64_t in, int64_t out, int64_t kernel, int64_t stride = 1);
  BatchNorm batch_norm(const std::string& name, int64_t channels);
  Linear linear(const std::string& name, int64_t in, int64_t out);
  // The head, from m features to the outputs. Call it last, so that no other layer's draws depend on it.
  void classify(int64_t features);
  // body() passes the outputs of its stem and stages through here, so that layers() can collect them.
  at::Tensor stage(const at::Tensor& x) const;
  static bool collecting() { return collected_ != nullptr; }
  bool training() const { return training_ && !frozen_; }
  bool bf16() const { return bf16_; }
  // Whether BatchNorm uses its running statistics and no gradient is needed.
  bool inference() const { return !training() && !at::GradMode::is_enabled(); }

  // Standard deviation of a convolution's initial weights; He's if empty.
  std::optional<double> conv_deviation_;

 private:
  at::Tensor parameter(const std::string& name, at::IntArrayRef sizes,
                       const std::function<double(Stream&)>& value);
  at::Tensor buffer(const std::string& name, int64_t channels, double value);

  const Weights weights_;  // while the constructor runs
  bool training_ = true, frozen_ = false, bf16_ = false;
  static thread_local std::vector<at::Tensor>* collected_;  // set while layers() runs
  at::Tensor mean_, std_;                                   // C×1×1
  Linear linear_;
  std::optional<Linear> projection_;  // comes before linear_ if the head is a projection
  Named parameters_, buffers_;
};

// An Error unless depth is 6n+4 with n ≥ 1: three blocks of n layers with two convolutions each.
void check_depth(int64_t depth);

// n×C×H×W → n×C.
inline at::Tensor global_average(const at::Tensor& x) { return x.mean({2, 3}); }

}  // namespace poem

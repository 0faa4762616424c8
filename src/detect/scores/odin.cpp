// ODIN (Liang et al. 2018): the largest softmax at a high temperature, after a step on the pixels that raises
// it; inputs the network knows rise more.
#include <ATen/ATen.h>

#include "detect/input_gradient.h"
#include "detect/score.h"
#include "net/network.h"

namespace poem {
namespace {

constexpr double kTemperature = 1000;
constexpr double kStep = 0.0014;  // of pixels in 0 … 1
constexpr int64_t kImages = 64;   // at a time: activations are kept for the gradient

class Odin : public Score {
 public:
  at::Tensor operator()(const Batch& batch) const override {
    Network& network = *batch.network;
    const int64_t classes = batch.logits.size(1);
    const auto log_softmax = [&](const at::Tensor& x) {
      const at::Tensor z = network.logits(network.features(x)).narrow(1, 0, classes);
      return (z.to(at::kDouble) / kTemperature).log_softmax(1);
    };
    // CE(z/T, argmax z) is −max log softmax(z/T).
    const auto loss = [&](const at::Tensor& x) { return std::vector<at::Tensor>{-log_softmax(x).amax(1)}; };
    std::vector<at::Tensor> scores = {at::empty({0})};
    for (const at::Tensor& pixels : batch.pixels.split(kImages)) {
      const at::Tensor gradient = input_gradients(pixels, loss)[0];
      const at::Tensor moved = pixels - kPixelRange * kStep * gradient.sign();
      scores.push_back(log_softmax(moved).amax(1).exp().to(at::kFloat).cpu());
    }
    return at::cat(scores);
  }
};

}  // namespace

std::unique_ptr<Score> make_odin() { return std::make_unique<Odin>(); }

}  // namespace poem

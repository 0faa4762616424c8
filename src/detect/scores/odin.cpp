// ODIN (Liang et al. 2018): the largest softmax at a high temperature, after a step on the pixels that raises
// it; inputs the network knows rise more. The size of the step is chosen on ID images held out of training
// against adversarial copies of them, as Lee et al. 2018 do: no OOD image is ever seen.
#include <ATen/ATen.h>

#include "detect/held_out.h"
#include "detect/input_gradient.h"
#include "poem/metrics.h"
#include "poem/network.h"

namespace poem {
namespace {

constexpr double kTemperature = 1000;
constexpr size_t kSteps = 21;  // 0, 0.0002, …, 0.004 of pixels in 0 … 1: those that the authors try
constexpr double step_size(size_t i) { return 0.0002 * static_cast<double>(i); }

class Odin : public Score {
 public:
  void fit(const Training& training) override {
    std::vector<std::vector<at::Tensor>> id(kSteps), attack(kSteps);  // scores by step, in blocks
    const auto add = [&](const at::Tensor& pixels, std::vector<std::vector<at::Tensor>>& by_step) {
      const at::Tensor direction = ascent(*training.network, pixels, training.classes);
      for (size_t i = 0; i < kSteps; ++i) {
        const at::Tensor moved = pixels + kPixelRange * step_size(i) * direction;
        by_step[i].push_back(score(*training.network, moved, training.classes));
      }
    };
    for_each_held_out(training, [&](const at::Tensor& pixels, const at::Tensor& attacked) {
      add(pixels, id);
      add(attacked, attack);
    });
    double best = -1;
    for (size_t i = 0; i < kSteps; ++i) {
      const double auroc = ood_metrics(to_doubles(at::cat(id[i])), to_doubles(at::cat(attack[i]))).auroc;
      if (auroc <= best) continue;
      best = auroc;
      step_ = at::scalar_tensor(step_size(i), at::kDouble);
    }
  }

  at::Tensor operator()(const Batch& batch) const override {
    const int64_t classes = batch.logits.size(1);
    const double step = step_.item<double>();
    std::vector<at::Tensor> scores = {at::empty({0})};
    for (const at::Tensor& pixels : batch.pixels.split(kGradientImages)) {
      const at::Tensor moved = pixels + kPixelRange * step * ascent(*batch.network, pixels, classes);
      scores.push_back(score(*batch.network, moved, classes));
    }
    return at::cat(scores);
  }

 private:
  static at::Tensor log_score(Network& network, const at::Tensor& x, int64_t classes) {
    const at::Tensor z = network.logits(network.features(x)).narrow(1, 0, classes);
    return (z.to(at::kDouble) / kTemperature).log_softmax(1).amax(1);
  }
  static at::Tensor score(Network& network, const at::Tensor& x, int64_t classes) {
    return log_score(network, x, classes).exp().to(at::kFloat).cpu();
  }

  // Where to move the pixels for the score to rise: CE(z/T, argmax z) is −max log softmax(z/T).
  static at::Tensor ascent(Network& network, const at::Tensor& pixels, int64_t classes) {
    const auto rising = [&](const at::Tensor& x) {
      return std::vector<at::Tensor>{log_score(network, x, classes)};
    };
    return input_gradients(pixels, rising)[0].sign();
  }

  State state() override { return {{"step", &step_}}; }

  at::Tensor step_;  // a float64 scalar
};

}  // namespace

std::unique_ptr<Score> make_odin() { return std::make_unique<Odin>(); }

}  // namespace poem

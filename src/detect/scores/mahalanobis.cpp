// Mahalanobis (Lee et al. 2018): at each layer the distance to the nearest class mean, after a step on the
// pixels that shrinks it; a logistic regression weighs the layers. It and the size of the step are fitted on
// ID images held out of training against adversarial copies of them: no OOD image is ever seen.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include "core/safetensors.h"
#include "detect/gaussians.h"
#include "detect/held_out.h"
#include "detect/image_blocks.h"
#include "detect/input_gradient.h"
#include "detect/logistic.h"
#include "poem/metrics.h"
#include "poem/network.h"

namespace poem {
namespace {

constexpr double kSteps[] = {0, 0.01, 0.005, 0.002, 0.0014, 0.001, 0.0005};  // of pixels in 0 … 1

using Tensors = std::vector<at::Tensor>;

class Mahalanobis : public Score {
 public:
  void fit(const Training& training) override {
    fit_layers(training);
    std::vector<Tensors> id(std::size(kSteps)), attack(std::size(kSteps));  // layer scores by step, in blocks
    for_each_held_out(training, [&](const at::Tensor& pixels, const at::Tensor& attacked) {
      add_scores_by_step(*training.network, pixels, id);
      add_scores_by_step(*training.network, attacked, attack);
    });
    choose_step(id, attack);
  }

  at::Tensor operator()(const Batch& batch) const override {
    Tensors scores = {at::empty({0})};
    const double step = step_.item<double>();
    for (const at::Tensor& pixels : batch.pixels.split(kGradientImages)) {
      const Tensors directions = step == 0 ? Tensors() : ascent(*batch.network, pixels);
      const at::Tensor layers = scores_after(*batch.network, pixels, step, directions);
      scores.push_back(logistic_logits(coefficients_, layers).to(at::kFloat));
    }
    return at::cat(scores);
  }

  void load(const TensorFile& file, const std::string& prefix) override {
    while (file.tensors.count(fmt::format("{}layer{}.centre", prefix, layers_.size())))
      layers_.emplace_back();
    Score::load(file, prefix);
  }

 private:
  void fit_layers(const Training& training) {
    std::vector<Tensors> seen;  // each layer's features, in blocks
    const at::Device device = training.network->parameters().front().second.device();
    for_each_block(training.images, training.size, device, [&](const at::Tensor& pixels) {
      const Tensors layers = training.network->layers(pixels);
      seen.resize(layers.size());
      for (size_t i = 0; i < layers.size(); ++i) seen[i].push_back(layers[i].cpu());
    });
    layers_.clear();
    for (const Tensors& blocks : seen) layers_.push_back(fit_gaussians(at::cat(blocks), training.labels));
  }

  // max −½d² over the classes.
  at::Tensor layer_score(size_t layer, const at::Tensor& features) const {
    return layers_.at(layer).distances(features).amin(1) * -0.5;
  }

  // The signs of the pixels' gradients: where to move them for each layer's score to rise.
  Tensors ascent(Network& network, const at::Tensor& pixels) const {
    Tensors gradients = input_gradients(pixels, [&](const at::Tensor& x) {
      Tensors scores = network.layers(x);
      for (size_t i = 0; i < scores.size(); ++i) scores[i] = layer_score(i, scores[i]);
      return scores;
    });
    for (at::Tensor& gradient : gradients) gradient = gradient.sign();
    return gradients;
  }

  // n×L: every layer's score, the pixels moved for that layer.
  at::Tensor scores_after(Network& network, const at::Tensor& pixels, double step,
                          const Tensors& directions) const {
    Tensors scores;
    if (step == 0) {
      const Tensors layers = network.layers(pixels);
      for (size_t i = 0; i < layers.size(); ++i) scores.push_back(layer_score(i, layers[i]));
    } else {
      for (size_t i = 0; i < directions.size(); ++i) {
        const at::Tensor moved = pixels + kPixelRange * step * directions[i];
        scores.push_back(layer_score(i, network.layers(moved)[i]));
      }
    }
    return at::stack(scores, 1).cpu();
  }

  void add_scores_by_step(Network& network, const at::Tensor& pixels, std::vector<Tensors>& by_step) const {
    const Tensors directions = ascent(network, pixels);
    for (size_t i = 0; i < by_step.size(); ++i)
      by_step[i].push_back(scores_after(network, pixels, kSteps[i], directions));
  }

  // A regression on every other image tells how well each step does on the rest; the best one's is then
  // fitted on all.
  void choose_step(const std::vector<Tensors>& id_blocks, const std::vector<Tensors>& attack_blocks) {
    double best = -1;
    for (size_t i = 0; i < std::size(kSteps); ++i) {
      const at::Tensor id = at::cat(id_blocks[i]), attack = at::cat(attack_blocks[i]);
      const auto half = [](const at::Tensor& rows, int64_t first) { return rows.slice(0, first, {}, 2); };
      const at::Tensor trial = fit_logistic(half(id, 0), half(attack, 0));
      const double auroc = ood_metrics(to_doubles(logistic_logits(trial, half(id, 1))),
                                       to_doubles(logistic_logits(trial, half(attack, 1))))
                               .auroc;
      if (auroc <= best) continue;
      best = auroc;
      step_ = at::scalar_tensor(kSteps[i], at::kDouble);
      coefficients_ = fit_logistic(id, attack);
    }
  }

  State state() override {
    State all = {{"step", &step_}, {"coefficients", &coefficients_}};
    for (size_t i = 0; i < layers_.size(); ++i) {
      const std::string layer = fmt::format("layer{}.", i);
      all.emplace_back(layer + "centre", &layers_[i].centre);
      all.emplace_back(layer + "whitener", &layers_[i].whitener);
      all.emplace_back(layer + "means", &layers_[i].means);
    }
    return all;
  }

  std::vector<Gaussians> layers_;
  at::Tensor step_, coefficients_;  // a scalar; one per layer, and the intercept: float64
};

}  // namespace

std::unique_ptr<Score> make_mahalanobis() { return std::make_unique<Mahalanobis>(); }

}  // namespace poem

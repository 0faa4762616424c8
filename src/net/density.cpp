// The network of CCU (Meinke and Hein 2020): a backbone's softmax p(y|x) mixed with two densities of the
// pixels, p_in for ID images and p_out for outliers,
//   p̂(y|x) = [p(y|x) p_in(x) + p_out(x) / K] / [p_in(x) + p_out(x)],
// so that the prediction is provably uniform far from all ID images. Both densities are mixtures of Gaussians
// with one variance per component, in a metric in which ID images are white.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "core/interrupts.h"
#include "net/weights.h"
#include "poem/error.h"
#include "poem/network.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr double kRaise = 1e-4;

// log of Σ_k α_k N(u; μ_k, σ_k² I), without the constant that both mixtures share.
struct Mixture {
  at::Tensor means, log_variances, log_weights;  // components×D, components, components (not normalised)

  at::Tensor log_density(const at::Tensor& u) const {
    const at::Tensor squares = distances(u, means);
    const auto dimensions = static_cast<double>(u.size(1));
    return at::logsumexp(at::log_softmax(log_weights, 0) - 0.5 * dimensions * log_variances -
                             0.5 * squares * (-log_variances).exp(),
                         1);
  }

  static at::Tensor distances(const at::Tensor& u, const at::Tensor& means) {  // squared, rows × components
    return (u.square().sum(1, true) + means.square().sum(1) - 2 * u.mm(means.t())).clamp_min(0);
  }
};

// The sums of the rows of each cluster, clusters × columns. On a GPU as a matrix product, because index_add_
// adds there in no fixed order.
at::Tensor sums_by_cluster(const at::Tensor& cluster, int64_t clusters, const at::Tensor& rows) {
  if (rows.is_cpu()) return at::zeros({clusters, rows.size(1)}, rows.options()).index_add_(0, cluster, rows);
  const at::Tensor names = at::arange(clusters, cluster.options()).unsqueeze(1);
  return (names == cluster.unsqueeze(0)).to(rows.scalar_type()).mm(rows);
}

class Density : public Network {
 public:
  Density(const NetworkSpec& spec, std::unique_ptr<Network> inner, const Weights& weights)
      : Network(spec), inner_(std::move(inner)), seed_(weights.seed) {
    const int64_t dimensions = spec.channels * spec.pixels, k = spec.components;
    const auto make = [&](const std::string& name, at::IntArrayRef sizes) {
      if (weights.file) return stored_tensor(weights, "density." + name, sizes);
      return at::zeros(sizes, weights.shapes ? at::kMeta : at::kCPU);
    };
    centre_ = make("centre", {dimensions});
    whiten_ = make("whiten", {dimensions, dimensions});
    if (!weights.file && !weights.shapes) whiten_.fill_diagonal_(1);
    in_ = {make("in.means", {k, dimensions}), make("in.log_variances", {k}), make("in.log_weights", {k})};
    out_ = {make("out.means", {k, dimensions}), make("out.log_variances", {k}), make("out.log_weights", {k})};
    learn(true);
  }

  // φ(x), followed by log p_in and log p_out.
  at::Tensor features(const at::Tensor& images) override {
    const at::Tensor u = white(images);
    return at::cat(
        {inner_->features(images), in_.log_density(u).unsqueeze(1), out_.log_density(u).unsqueeze(1)}, 1);
  }

  at::Tensor logits(const at::Tensor& features) override {
    const int64_t m = feature_count();
    const at::Tensor densities = features.narrow(1, m, 2);
    const at::Tensor log_in = densities.narrow(1, 0, 1), log_out = densities.narrow(1, 1, 1);
    const at::Tensor log_p = at::log_softmax(inner_->logits(features.narrow(1, 0, m)), 1);
    const at::Tensor uniform = log_out - std::log(static_cast<double>(log_p.size(1)));
    return at::cat({at::logaddexp(log_p + log_in, uniform) - at::logaddexp(log_in, log_out), densities}, 1);
  }

  std::vector<at::Tensor> layers(const at::Tensor& images) override { return inner_->layers(images); }
  int64_t feature_count() const override { return inner_->feature_count(); }
  Named parameters() const override { return inner_->parameters(); }

  Named buffers() const override {
    Named named = inner_->buffers();
    named.insert(named.end(), {{"density.centre", centre_},
                               {"density.whiten", whiten_},
                               {"density.in.means", in_.means},
                               {"density.in.log_variances", in_.log_variances},
                               {"density.in.log_weights", in_.log_weights},
                               {"density.out.means", out_.means},
                               {"density.out.log_variances", out_.log_variances},
                               {"density.out.log_weights", out_.log_weights}});
    return named;
  }

  void train(bool on) override { inner_->train(on); }
  void use_bf16(bool on) override { inner_->use_bf16(on); }
  void freeze_backbone() override { inner_->freeze_backbone(); }

  void to(const at::Device& device) override {
    inner_->to(device);
    for (auto& [name, tensor] : buffers()) tensor.set_data(tensor.to(device));
  }

  bool prepares() const override { return true; }
  void prepare(const at::Tensor& id_images, const at::Tensor& outlier_images) override;

  // The mixtures take a step at their own learning rate. The outliers' Gaussians stay at least twice as wide
  // as any ID Gaussian.
  void after_step() override {
    const at::NoGradGuard no_grad;
    for (at::Tensor* tensor : learned()) {
      if (!tensor->grad().defined()) continue;
      tensor->sub_(tensor->grad(), spec_.density_rate);
      tensor->mutable_grad().reset();
    }
    out_.log_variances.copy_(at::max(out_.log_variances, in_.log_variances.max() + std::log(4.0)));
  }

 private:
  std::vector<at::Tensor*> learned() {
    return {&in_.means,  &in_.log_variances,  &in_.log_weights,
            &out_.means, &out_.log_variances, &out_.log_weights};
  }

  void learn(bool on) {
    for (at::Tensor* tensor : learned()) tensor->requires_grad_(on);
  }

  at::Tensor white(const at::Tensor& images) const {
    return (images.flatten(1).to(centre_.scalar_type()) / 255 - centre_).mm(whiten_);
  }

  void set_metric(const at::Tensor& id_images);
  void place(Mixture& mixture, const at::Tensor& u, const char* stream);

  std::unique_ptr<Network> inner_;
  const uint64_t seed_;
  at::Tensor centre_, whiten_;  // u = (x/255 − centre) whiten
  Mixture in_, out_;
};

// ‖u‖² is the Mahalanobis distance of the ID pixels, with a share of the covariance's trace added to its
// diagonal. There are about as many pixels as images, so the directions of least variance are mostly chance
// and must not dominate.
void Density::set_metric(const at::Tensor& id_images) {
  const at::Tensor x = id_images.flatten(1).to(at::kDouble) / 255;
  centre_.copy_(x.mean(0));
  const at::Tensor difference = x - x.mean(0);
  at::Tensor covariance = difference.t().mm(difference) / static_cast<double>(x.size(0));
  covariance.diagonal().add_(kRaise * covariance.diagonal().sum() + 1e-12);
  stop_if_interrupted();
  const at::Tensor lower = at::linalg_cholesky(covariance);
  const at::Tensor identity = at::eye(lower.size(0), lower.options());
  whiten_.copy_(at::linalg_solve_triangular(lower, identity, /*upper=*/false).t());
}

// Lloyd's iterations, started from random images. A component that is nearest to no image stays where it is.
void Density::place(Mixture& mixture, const at::Tensor& u, const char* stream_name) {
  constexpr int kIterations = 10;
  const int64_t n = u.size(0), k = mixture.means.size(0);
  Stream stream(seed_, stream_name);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < k; ++i) rows.push_back(static_cast<int64_t>(stream.below(n)));
  at::Tensor means = u.index_select(0, at::tensor(rows, u.options().dtype(at::kLong)));
  at::Tensor counts, squares;
  for (int i = 0; i < kIterations; ++i) {
    stop_if_interrupted();
    const auto [nearest_square, nearest] = Mixture::distances(u, means).min(1);
    counts = sums_by_cluster(nearest, k, at::ones({n, 1}, u.options())).squeeze(1);
    squares = sums_by_cluster(nearest, k, nearest_square.unsqueeze(1)).squeeze(1);
    const at::Tensor sums = sums_by_cluster(nearest, k, u);
    means = at::where((counts > 0).unsqueeze(1), sums / counts.clamp_min(1).unsqueeze(1), means);
  }
  // A cluster of few images says little about its own width, so the width of all images is mixed in.
  constexpr double kLean = 10;
  const auto dimensions = static_cast<double>(u.size(1));
  const at::Tensor overall = squares.sum() / static_cast<double>(n);
  mixture.means.copy_(means);
  mixture.log_variances.copy_(((squares + kLean * overall) / (counts + kLean) / dimensions + 1e-6).log());
  mixture.log_weights.copy_((counts + 1).log());
}

void Density::prepare(const at::Tensor& id_images, const at::Tensor& outlier_images) {
  const at::NoGradGuard no_grad;
  if (id_images.flatten(1).size(1) != centre_.size(0))
    throw Error("objective.name", "ccu needs images of the network's input size",
                "set data.size to that size");
  set_metric(id_images);
  place(in_, white(id_images), "density-in");
  place(out_, white(outlier_images), "density-out");
  after_step();  // the outliers' variances
}

}  // namespace

std::unique_ptr<Network> make_density(const NetworkSpec& spec, std::unique_ptr<Network> inner,
                                      const Weights& weights) {
  return std::make_unique<Density>(spec, std::move(inner), weights);
}

}  // namespace poem

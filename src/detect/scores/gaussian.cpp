// Mahalanobis distances in the space of the features: MDS (Lee et al. 2018, last layer only), RMDS (Ren et
// al. 2021) and SSD's (Sehwag et al. 2021), which is MDS on normalised features.
#include <ATen/ATen.h>

#include "detect/gaussians.h"
#include "detect/normalise.h"
#include "poem/scores.h"

namespace poem {
namespace {

class Mds : public Score {
 public:
  explicit Mds(bool normalise) : normalise_(normalise) {}

  void fit(const Training& training) override {
    classes_ = fit_gaussians(prepared(training.features), training.labels);
  }

  // max −½d² over the classes.
  at::Tensor operator()(const Batch& batch) const override {
    return (classes_.distances(prepared(batch.features)).amin(1) * -0.5).to(at::kFloat);
  }

 private:
  at::Tensor prepared(const at::Tensor& features) const {
    return normalise_ ? normalised(features) : features;
  }

  State state() override {
    return {{"centre", &classes_.centre}, {"whitener", &classes_.whitener}, {"means", &classes_.means}};
  }

  bool normalise_;
  Gaussians classes_;
};

class Rmds : public Score {
 public:
  void fit(const Training& training) override {
    classes_ = fit_gaussians(training.features, training.labels);
    all_ = fit_gaussians(training.features, at::zeros_like(training.labels));
  }

  // max −d² + d₀² over the classes, d₀ the distance to one Gaussian over all.
  at::Tensor operator()(const Batch& batch) const override {
    const at::Tensor nearest = classes_.distances(batch.features).amin(1);
    return (all_.distances(batch.features).squeeze(1) - nearest).to(at::kFloat);
  }

 private:
  State state() override {
    return {{"centre", &classes_.centre}, {"whitener", &classes_.whitener}, {"means", &classes_.means},
            {"all_centre", &all_.centre}, {"all_whitener", &all_.whitener}, {"all_means", &all_.means}};
  }

  Gaussians classes_, all_;
};

}  // namespace

std::unique_ptr<Score> make_mds() { return std::make_unique<Mds>(/*normalise=*/false); }
std::unique_ptr<Score> make_ssd() { return std::make_unique<Mds>(/*normalise=*/true); }
std::unique_ptr<Score> make_rmds() { return std::make_unique<Rmds>(); }

}  // namespace poem

// Calibrates a detector on ID images that it was not trained on: which share of new ID images its threshold
// will keep, and how far its probabilities can be trusted.
//
//   Detector detector = Detector::load("run/detector.safetensors");
//   const CalibrationOutcome outcome = calibrate(detector, read_images("fresh/", {detector.size}), {0.99});
//   const KeptShare kept = kept_share(*detector.calibration);   // of 24 images at 0.95: 0.789 … 0.990
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poem {

struct Detector;
struct ImageSet;

struct Calibration {
  double tpr;      // the threshold keeps at least this share of the held-out ID images; above 0, at most 1
  int64_t images;  // the number of held-out images
  std::string source = "";  // where they came from; empty if the training held them out
};
bool is_possible(const Calibration& calibration);  // false if a value is out of range: the file is damaged

// With 95 % confidence, the threshold keeps a share of new ID images between `low` and `high`. The reason:
// the threshold is the k-th largest of the n scores of the held-out images, where k is the smallest count
// with k/n ≥ tpr. If the scores have a continuous distribution, the share that such a threshold keeps is
// distributed as Beta(k, n − k + 1), and `low` and `high` are its 2.5 % and 97.5 % quantiles. If scores are
// equal, the threshold keeps more.
struct KeptShare {
  double low, high;
};
KeptShare kept_share(const Calibration& calibration);

// "keeps 23 of 24 held-out ID images (asked: 95 %) and, with 95 % confidence, 78.9 to 99.0 % of new ones".
// Instead of "held-out ID images" it says "images of SOURCE" if the calibration has a source.
std::string to_text(const Calibration& calibration);

// Sets the detector's threshold, calibration and held_out from the scores of held-out ID images. Takes back
// an earlier `unsure`. No score, or one that is NaN, is an Error.
void set_threshold(Detector& detector, std::vector<float> scores, double tpr);

// The temperature T that minimises the mean of −log softmax(logits / T)[label]. Empty if there is no such T:
// every image has the label with the largest logit (the mean then falls as T falls), or the logits say
// nothing about the labels. logits: n×K; labels: int64 n, each in 0 … K−1.
std::optional<double> fit_temperature(const at::Tensor& logits, const at::Tensor& labels);

// The expected calibration error of the probabilities softmax(logits / temperature): in 15 equal bins of the
// largest probability, the difference between its mean and the share of right classes, weighted by the
// bin's share of the images.
double calibration_error(const at::Tensor& logits, const at::Tensor& labels, double temperature);

struct CalibrationTarget {
  double tpr = 0.95;             // the threshold keeps at least this share of the images
  std::optional<double> unsure;  // a larger share: images between both thresholds are "unsure"
};

void check_target(const CalibrationTarget& target);  // an Error if a share is out of range

struct CalibrationOutcome {
  // calibration_error() at the old temperature and at the best one; empty without labels.
  std::optional<double> error_before, error_after;
  std::optional<double> best_temperature;  // fit_temperature()
  bool temperature_fitted = false;         // false: detector.temperature is as it was
};

// Sets threshold, calibration, unsure and held_out from ID images that the network was not trained on, and
// the temperature if these have labels, unless the best one raises the calibration error: the likelihood, by
// which it is fitted, weighs a few confident mistakes more than that.
CalibrationOutcome calibrate(Detector& detector, const ImageSet& id, const CalibrationTarget& target = {});

}  // namespace poem

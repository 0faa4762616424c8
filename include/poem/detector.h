// A trained detector: network, score, threshold and class names in one file. It classifies images of the
// classes that it knows and marks all others as unknown.
//
//   const Detector detector = Detector::load("run/detector.safetensors");
//   ReadOptions options;
//   options.size = detector.size;
//   for (const Verdict& verdict : detector.judge(read_images("photos/", options)))
//     std::cout << detector.word(verdict) << ' ' << verdict.p_value << '\n';   // "cat 0.63", "unknown 0.005"
//
// One image file in memory, as it comes in a request:
//
//   const at::Tensor pixels = read_image("upload", bytes, detector.size).unsqueeze(0);
//   const Verdict verdict = detector.judge(pixels).front();
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "poem/calibration.h"
#include "poem/images.h"
#include "poem/network.h"
#include "poem/scores.h"

namespace poem {

struct Verdict {
  int64_t label;        // the most likely class; −1 if the network does not classify
  float score;          // higher means ID
  bool known;           // score ≥ threshold
  bool unsure = false;  // not known, but score ≥ Detector::unsure->threshold
  // Of the class `label` among the classes, if the image shows one of them; NaN if the network does not
  // classify.
  double probability = std::numeric_limits<double>::quiet_NaN();
  // (1 + the number of held-out ID images with at most this score) / (1 + their number): how probable such a
  // low score is for an image of the known classes. NaN if the detector has no scores of held-out images.
  double p_value = std::numeric_limits<double>::quiet_NaN();
};

// Below the threshold and from this one up, a detector is unsure.
struct UnsureRange {
  double threshold;
  double tpr;  // the threshold keeps at least this share of the held-out ID images
};

struct Detector {
  std::shared_ptr<Network> network;  // may have more outputs than there are classes
  std::shared_ptr<Score> score;      // fitted
  std::optional<double> threshold;   // empty if no validation images were held out
  std::vector<std::string> class_names;
  int64_t size = 32;                            // side of the network's input in pixels
  std::optional<Calibration> calibration = {};  // how the threshold was chosen; empty in older files
  std::optional<UnsureRange> unsure = {};       // empty: an image is known or unknown
  double temperature = 1;                       // divides the logits for Verdict::probability
  std::vector<float> held_out = {};  // ascending scores of ID images that were not trained on; may be empty

  // One verdict per image. Images of another size are resized as read_images() does: the shorter side, then
  // the centre is cut out. A detector without a threshold throws an Error.
  std::vector<Verdict> judge(const ImageSet& images) const;
  // The same for n×C×size×size, uint8 or float32 in 0 … 255, on the CPU.
  std::vector<Verdict> judge(const at::Tensor& pixels) const;
  // The name of the class, "unsure" or "unknown"; "known" if the network does not classify.
  std::string word(const Verdict& verdict) const;

  // For every image, float32 on the CPU: N×K logits of the classes, and N scores.
  at::Tensor logits(const ImageSet& images) const;
  at::Tensor scores(const ImageSet& images) const;

  // Calls use(batch) for one block of images after the other, with a single forward pass and without
  // gradients.
  void for_each_batch(const ImageSet& images, const std::function<void(const Batch&)>& use) const;

  // One forward pass over n×C×size×size.
  Batch forward(const at::Tensor& pixels) const;

  void save(const std::string& path) const;  // the same detector gives the same bytes
  // A file that is damaged or of another format is an Error, and so is one whose score is not registered.
  static Detector load(const std::string& path);
};

}  // namespace poem

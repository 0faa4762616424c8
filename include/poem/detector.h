// A trained detector: network, score, threshold and class names in one file. It classifies images of the
// classes that it knows and marks all others as unknown.
//
//   const Detector detector = Detector::load("run/detector.safetensors");
//   ReadOptions options;
//   options.size = detector.size;
//   for (const Verdict& v : detector.judge(read_images("photos/", options)))
//     std::cout << (v.known ? detector.class_names[v.label] : "unknown") << '\n';
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
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
  int64_t label;  // the most likely class; −1 if the network does not classify
  float score;    // higher means ID
  bool known;     // score ≥ threshold
};

struct Detector {
  std::shared_ptr<Network> network;  // may have more outputs than there are classes
  std::shared_ptr<Score> score;      // fitted
  std::optional<double> threshold;   // empty if no validation images were held out
  std::vector<std::string> class_names;
  int64_t size = 32;                            // side of the network's input in pixels
  std::optional<Calibration> calibration = {};  // how the threshold was chosen; empty in older files

  // One verdict per image. Images of another size are resized. A detector without a threshold throws an
  // Error.
  std::vector<Verdict> judge(const ImageSet& images) const;

  // For every image, float32 on the CPU: N×K logits of the classes, and N scores.
  at::Tensor logits(const ImageSet& images) const;
  at::Tensor scores(const ImageSet& images) const;

  // What the network computes from pixels (n×C×size×size on its device). It must be in eval mode.
  Batch forward(const at::Tensor& pixels) const;

  // Calls use(batch) for one block of images after the other, with a single forward pass and without
  // gradients.
  void for_each_batch(const ImageSet& images, const std::function<void(const Batch&)>& use) const;

  void save(const std::string& path) const;  // the same detector gives the same bytes
  // A file that is damaged or of another format is an Error, and so is one whose score is not registered.
  static Detector load(const std::string& path);
};

}  // namespace poem

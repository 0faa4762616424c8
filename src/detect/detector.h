// The artifact of a training: network, score, threshold and class names in one file. It classifies what it
// knows and says "unknown" to the rest.
//
//   Detector detector = Detector::load("run/detector.safetensors");
//   for (const Verdict& v : detector.judge(read_images("photos/", {detector.size})))
//     std::cout << (v.known ? detector.class_names[v.label] : "unknown") << '\n';
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/image_set.h"
#include "net/network.h"

namespace poem {

struct Verdict {
  int64_t label;  // the most likely class
  float score;    // higher means ID
  bool known;     // score ≥ threshold
};

struct Detector {
  std::shared_ptr<Network> network;
  std::string score = "energy";
  std::optional<double> threshold;  // empty when no validation images were held out
  std::vector<std::string> class_names;
  int64_t size = 32;  // side of the input in pixels

  // Every image's verdict; images of another size are resized. Without a threshold an Error.
  std::vector<Verdict> judge(const ImageSet& images) const;

  // Logits of every image, float32 N×K on the CPU.
  at::Tensor logits(const ImageSet& images) const;

  void save(const std::string& path) const;  // the same detector gives the same bytes
  static Detector load(const std::string& path);
};

}  // namespace poem

// What a detector computes from pixels, recorded as a graph of LibTorch's operators: networks and scores need
// no second description for other runtimes.
//
//   Recording recording = record(detector);
//   std::cout << *recording.graph;
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace torch::jit {
struct Graph;
}

namespace poem {

struct Detector;

struct Output {
  std::string name, meaning;
  at::Tensor example;
};

struct Recording {
  // The inputs are the images and then the network's tensors, under their names; the outputs are those below.
  std::shared_ptr<torch::jit::Graph> graph;
  at::Tensor images;                                        // an example: uint8 n×C×size×size
  std::vector<std::pair<std::string, at::Tensor>> tensors;  // of the network
  std::vector<Output> outputs;

  bool uses(size_t input) const;  // whether an output depends on it
  uint64_t bytes() const;         // of all tensors that an output depends on: the network's and the score's
};

// The detector must have a threshold; its network is switched to eval mode. An Error if the recording gives
// other results than the detector: a score that works on numbers instead of tensors leaves no record.
Recording record(const Detector& detector);

}  // namespace poem

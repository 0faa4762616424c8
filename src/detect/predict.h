// One prediction per image of any sources, in order. An image that cannot be read is a prediction too: it
// says why.
//
//   predict(detector, {"photo.jpg", "album/"}, [](const Prediction& p, const at::Tensor& pixels) { … });
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <istream>
#include <string>
#include <vector>

#include "poem/detector.h"

namespace poem {

struct Prediction {
  std::string path;
  Verdict verdict;      // only if there is no error
  std::string error;    // why the image has no verdict; empty if it has one
  bool source = false;  // the error is that of a whole source, or of the rest of it, not of an image
};

// `pixels` is what the network saw, C×size×size; undefined if there is an error.
using UsePrediction = std::function<void(const Prediction& prediction, const at::Tensor& pixels)>;

// Throws an Error if a source does not exist or has an unknown format, before an image is read. A file that
// only its content can tell is taken for an image.
void check_predictable(const std::vector<std::string>& sources);

// All images of the sources, block by block; files that follow one another are decoded together. A source
// that cannot be read, or not to its end, gives a prediction with the error.
void predict(const Detector& detector, const std::vector<std::string>& sources, const UsePrediction& use);

// The same for what a stream contains: a tar of images, or a list of sources, one per line (or each with a
// zero byte after it, as find -print0 writes them). Anything else is an Error, and so is a list of more than
// 1 GiB. A wait for std::cin ends when the program is asked to stop (core/interrupts.h).
void predict_stream(const Detector& detector, std::istream& stream, const UsePrediction& use);

}  // namespace poem

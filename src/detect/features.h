// Writes the features that a detector's network computes for images, in one file for other programs, `poem
// posthoc` and `poem mine`.
//
//   write_features("photos.npz", detector, read_images("photos/", {detector.size}));
//
// The arrays of the .npz, for n images, m features and K classes:
// - features: float32 n×m, φ(x), what scores and miners see
// - logits: float32 n×K; only if the network classifies
// - labels: int64 n, positions among the detector's classes; only if the images have labels of these
// - names: uint8 n×l, padded with zeros; only if the images have names
// - weight, bias: float32 K×m and K, logits = features · weightᵀ + bias; only if the last layer is linear
#pragma once
#include <string>

#include "poem/detector.h"

namespace poem {

// Returns what was written, in words: "80 rows of 64 features; arrays: bias, features …". Images that do not
// fit the network are an Error.
std::string write_features(const std::string& path, const Detector& detector, const ImageSet& images);

}  // namespace poem

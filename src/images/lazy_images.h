// Images that are made when they are first needed, and kept: those of a drawn world of a million, of which an
// epoch needs a part, or those of tars, which are decoded. Memory is committed page by page as images are
// made.
//
//   LazyImages world("world:outliers:1000000", {1000000, 3, 32, 32}, class_names, make);
//   world.make(crops, count);                  // their images are there now, with their labels
//   cut(world.images(), crops, count, augmentation);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/interrupts.h"
#include "poem/crops.h"

namespace poem {

class LazyImages {
 public:
  // Returns the pixels of these images, uint8 n×C×H×W. If the set has classes, it also writes the label of
  // each image to `labels`; otherwise, and if the labels are known, `labels` is null.
  using Make = std::function<at::Tensor(const std::vector<int64_t>& images, int64_t* labels)>;

  // `shape`: N×C×H×W. Without class names the images have no labels.
  LazyImages(const std::string& name, const std::vector<int64_t>& shape, std::vector<std::string> class_names,
             Make make);

  // For a set whose names and labels are known before an image is made.
  void describe(ImageNames names, const at::Tensor& labels);
  bool knows_labels() const { return !images_.labelled() || knows_labels_; }
  // All images that were made are forgotten before they take more than so many bytes, unless a single call of
  // make() needs more. They are made again when they are needed again.
  void keep_at_most(uint64_t bytes);
  uint64_t most_bytes() const { return most_bytes_; }  // that the images can take

  // Pixels and labels are zeros until make() has made the image, and undefined once it was forgotten.
  const ImageSet& images() const { return images_; }

  // Makes those images of the crops that are not there yet. `before_block` is called before each block if
  // there are several, so that Ctrl-C can throw Interrupted.
  void make(const Crop* crops, int64_t count, void (*before_block)() = stop_if_interrupted);

  int64_t made() const { return made_; }  // how many images are there

 private:
  std::vector<int64_t> missing(const Crop* crops, int64_t count) const;
  void forget();
  void make_block(const std::vector<int64_t>& images);

  ImageSet images_;
  Make make_;
  std::vector<bool> there_;  // by image
  int64_t made_ = 0;
  uint64_t most_bytes_;
  bool knows_labels_ = false;
};

}  // namespace poem

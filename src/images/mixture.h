// Image sets with one index space: the outliers of a run, from one source or from several. The sets may have
// images of different sizes.
//
//   Mixture outliers({{photos, 0.3}, {drawings, 0.7}});   // shares of each epoch's pool
//   outliers.find(photos.size());                         // {1, 0}: the first of the drawings
//   cut(outliers, crops, count, augmentation);
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "images/lazy_images.h"
#include "poem/crops.h"
#include "poem/images.h"

namespace poem {

struct MixturePart {
  ImageSet images;
  double share = 1;                            // of a pool; those of all parts add up to 1
  std::shared_ptr<LazyImages> lazy = nullptr;  // makes `images` when they are needed; null: all are there
};

class Mixture {
 public:
  Mixture() = default;              // of no images
  Mixture(const ImageSet& images);  // one part; image i is image i of the set
  explicit Mixture(std::vector<MixturePart> parts) : parts_(std::move(parts)) {}

  const std::vector<MixturePart>& parts() const { return parts_; }
  bool empty() const { return parts_.empty(); }
  int64_t size() const;

  struct Place {
    size_t part;
    int64_t image;  // of the part
  };
  Place find(int64_t image) const;  // an Error if there is no such image

  // The classes of all parts, in their order; empty if no part has labels. If several parts have labels, the
  // name of a class includes its source.
  std::vector<std::string> class_names() const;
  // One per crop: an index into class_names(); −1 if the part has no labels. Makes lazy images
  // whose labels are not known.
  std::vector<int64_t> labels(const std::vector<Crop>& crops) const;
  // The lazy images of these crops are there from then on (LazyImages::make()).
  void make(const std::vector<Crop>& crops, void (*before_block)()) const;

 private:
  void make_labels(const std::vector<Crop>& crops) const;
  std::vector<MixturePart> parts_;
};

// As cut() of an image set: row i is crops[i], whatever part its image belongs to.
at::Tensor cut(const Mixture& images, const Crop* crops, int64_t count, const Augmentation& augmentation);

// The same with a function that cuts crops of one part; their images are made, and their indices are those of
// the part.
using CutPart = std::function<at::Tensor(size_t part, const Crop* crops, int64_t count)>;
at::Tensor cut_by_part(const Mixture& images, const Crop* crops, int64_t count, const CutPart& cut_part);

}  // namespace poem

// Images where crops of them are needed: on a GPU a copy of all pixels, if they fit, so that nothing but 16
// bytes a crop travels.
//
//   DeviceImages images(set, device);
//   at::Tensor batch = images.cut(crops, count, augmentation);   // on the device; the pixels of poem::cut()
#pragma once
#include "data/augment.h"

namespace poem {

class DeviceImages {
 public:
  // `images` must outlive it. Pixels that would take more than half of the GPU's free memory stay where they
  // are and are cut on the CPU.
  DeviceImages(const ImageSet& images, at::Device device);

  at::Tensor cut(const Crop* crops, int64_t count, const Augmentation& augmentation) const;

 private:
  const ImageSet& images_;
  at::Device device_;
  at::Tensor resident_;  // on the GPU; undefined where cutting is done on the CPU
};

}  // namespace poem

// Images on the device that cuts crops from them. A GPU keeps a copy of all pixels if they fit, so that only
// 16 bytes per crop are transferred; otherwise the images that are needed are streamed to it.
//
//   DeviceImages images(set, device);
//   at::Tensor batch = images.cut(crops, count, augmentation);   // on the device; the pixels of poem::cut()
#pragma once
#include <memory>

#include "poem/crops.h"

namespace poem {

class DeviceImages {
 public:
  // `images` must outlive it. kAuto: pixels that would take more than half of the GPU's free memory are
  // streamed.
  DeviceImages(const ImageSet& images, at::Device device, ImagePlace place = ImagePlace::kAuto);
  ~DeviceImages();

  at::Tensor cut(const Crop* crops, int64_t count, const Augmentation& augmentation) const;

 private:
  struct Streaming;
  struct Tables;
  const Tables* tables(const Augmentation& augmentation) const;

  const ImageSet& images_;
  at::Device device_;
  at::Tensor resident_;                     // on the GPU; undefined where there is no room
  std::unique_ptr<Streaming> streaming_;    // null where the pixels are resident, or on the CPU
  mutable std::unique_ptr<Tables> tables_;  // of the last augmentation with filters
};

struct DeviceMemory {
  int64_t free, total;  // bytes
};
DeviceMemory device_memory(at::Device gpu);

}  // namespace poem

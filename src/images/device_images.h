// Images on the device that cuts crops from them. A GPU keeps a copy of all pixels if they fit, so that only
// 16 bytes per crop are transferred; otherwise the images that are needed are streamed to it.
//
//   DeviceImages images(set, device);   // an ImageSet or a Mixture
//   at::Tensor batch = images.cut(crops, count, augmentation);   // on the device; the pixels of poem::cut()
#pragma once
#include <memory>
#include <vector>

#include "core/mapped_file.h"
#include "images/mixture.h"
#include "poem/crops.h"

namespace poem {

class DeviceImages {
 public:
  // The images must outlive it. kAuto: pixels that would take more than half of the GPU's free memory are
  // streamed. Each part of a mixture is resident or streamed by itself; a lazy part is always streamed.
  DeviceImages(const ImageSet& images, at::Device device, ImagePlace place = ImagePlace::kAuto);
  DeviceImages(const Mixture& images, at::Device device, ImagePlace place = ImagePlace::kAuto);
  ~DeviceImages();

  at::Tensor cut(const Crop* crops, int64_t count, const Augmentation& augmentation) const;

  // For walks over images in mapped files (core/mapped_file.h): reads the pages of these crops' images, on
  // any thread, and lets go of all pages from the first to the last of them. Other images stay as they are.
  void read_ahead(const Crop* crops, int64_t count) const;
  void let_go(const Crop* crops, int64_t count) const;

 private:
  class Set;
  std::vector<std::vector<Span>> spans(const Crop* crops, int64_t count) const;  // of pixels, by part
  std::vector<std::unique_ptr<Set>> sets_;                                       // one per part
  const Mixture* mixture_ = nullptr;                                             // null: of one image set
};

struct DeviceMemory {
  int64_t free, total;  // bytes
};
DeviceMemory device_memory(at::Device gpu);

}  // namespace poem

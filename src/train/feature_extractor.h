// Takes the network's features of crops: the only walk over images in blocks. Mining, the queue and the
// validation accuracy all go through it.
//
//   const FeatureExtractor extract(*network, device, size, /*bf16=*/false);
//   extract(images, crops, augmentation, [&](int64_t first, const at::Tensor& features) { … });
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "core/interrupts.h"
#include "images/device_images.h"
#include "poem/mining.h"
#include "poem/network.h"

namespace poem {

// While it lives, the network may compute in bfloat16. Outside of it the network is what the detector will
// be.
class Bf16Scope {
 public:
  Bf16Scope(Network& network, bool bf16) : network_(network) { network.use_bf16(bf16); }
  ~Bf16Scope() { network_.use_bf16(false); }
  Bf16Scope(const Bf16Scope&) = delete;
  Bf16Scope& operator=(const Bf16Scope&) = delete;

 private:
  Network& network_;
};

enum class Scale { kFull, kHalf };

class FeatureExtractor {
 public:
  static constexpr int64_t kBlock = 20000;  // crops whose features are held at a time

  // `size`: side of the network's input in pixels. `before_images` is called before images go through the
  // network, so that Ctrl-C can throw Interrupted.
  FeatureExtractor(Network& network, at::Device device, int64_t size, bool bf16,
                   void (*before_images)() = stop_if_interrupted);

  // Visits the crops block by block (poem/mining.h), the network in eval mode. With `what`, a progress bar
  // of that name is shown. kHalf: of the images at half their side, for a quarter of the work.
  void operator()(const DeviceImages& images, const std::vector<Crop>& crops,
                  const Augmentation& augmentation, const FeatureVisit& visit, const std::string& what = "",
                  Scale scale = Scale::kFull) const;

 private:
  at::Tensor block(const DeviceImages& images, const Crop* crops, int64_t count,
                   const Augmentation& augmentation, Scale scale) const;

  Network& network_;
  const int64_t images_at_a_time_;
  const bool bf16_;
  void (*const before_images_)();
};

}  // namespace poem

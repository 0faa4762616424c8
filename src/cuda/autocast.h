// While one is alive, LibTorch computes convolutions and products on the GPU in bfloat16. Needs LibTorch 2.4.
#pragma once
#include <ATen/autocast_mode.h>

namespace poem::cuda {

class Autocast {
 public:
  Autocast() {
    at::autocast::set_autocast_enabled(at::kCUDA, true);
    at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
    at::autocast::set_autocast_cache_enabled(
        false);  // a cast kept outside a CUDA graph would be missing in it
  }
  ~Autocast() { at::autocast::set_autocast_enabled(at::kCUDA, false); }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
};

}  // namespace poem::cuda

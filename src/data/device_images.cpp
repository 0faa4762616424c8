#include "data/device_images.h"

#include <ATen/ATen.h>

#ifdef POEM_HAS_CUDA
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <spdlog/spdlog.h>

#include "cuda/cut.h"
#endif

namespace poem {

#ifdef POEM_HAS_CUDA
namespace {

at::Tensor cut_on_gpu(const at::Tensor& pixels, const at::Tensor& places, const Augmentation& a) {
  const c10::cuda::CUDAGuard guard(pixels.device());
  const auto channels = static_cast<int>(pixels.size(1)), height = static_cast<int>(pixels.size(2)),
             width = static_cast<int>(pixels.size(3));
  const bool resize = a.resize && std::max<int64_t>(height, width) > a.size;
  const at::Tensor out = at::empty({places.size(0), channels, a.size, a.size}, pixels.options());
  if (out.numel() == 0) return out;
  cuda::cut({pixels.data_ptr<uint8_t>(), channels, height, width, resize}, places.data_ptr<int32_t>(),
            places.size(0), static_cast<int>(a.size), out.data_ptr<uint8_t>(),
            c10::cuda::getCurrentCUDAStream());
  return out;
}

}  // namespace
#endif

DeviceImages::DeviceImages(const ImageSet& images, at::Device device) : images_(images), device_(device) {
#ifdef POEM_HAS_CUDA
  if (!device.is_cuda() || !images.pixels.defined() || images.pixels.scalar_type() != at::kByte) return;
  const c10::cuda::CUDAGuard guard(device);
  size_t free = 0, total = 0;
  const bool known = cudaMemGetInfo(&free, &total) == cudaSuccess;
  if (known && images.pixels.nbytes() <= free / 2) {
    resident_ = images.pixels.to(device).contiguous();
  } else {
    spdlog::warn("{} takes {} MiB, the GPU has {} free: its images are cut on the CPU, which is slower",
                 images.name, images.pixels.nbytes() >> 20, free >> 20);
  }
#endif
}

at::Tensor DeviceImages::cut(const Crop* crops, int64_t count, const Augmentation& a) const {
#ifdef POEM_HAS_CUDA
  if (resident_.defined() && only_moves(a)) {
    const at::Tensor places = crop_places(images_, crops, count, a).pin_memory();
    return cut_on_gpu(resident_, places.to(device_, /*non_blocking=*/true), a);
  }
  if (device_.is_cuda())
    return poem::cut(images_, crops, count, a).pin_memory().to(device_, /*non_blocking=*/true);
#endif
  return poem::cut(images_, crops, count, a);
}

}  // namespace poem

#include "train/gpu_memory.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/runtime.h"
#include "images/device_images.h"
#include "poem/error.h"
#include "poem/network.h"
#include "poem/objective.h"
#include "train/network_setup.h"
#ifdef POEM_HAS_CUDA
#include <c10/cuda/CUDACachingAllocator.h>
#endif

namespace poem {

bool computes_in_bf16(Precision precision, at::Device device) {
  if (precision == Precision::kFloat32) return false;
  if (has_bf16(device)) return true;
  if (precision == Precision::kAuto) return false;
  throw Error("train.precision", "is bf16, which only a GPU with bfloat16 does (compute capability 8.0)",
              "use device cuda there, or set it to float32");
}

int64_t images_per_block(int64_t size, at::Device device) {
  constexpr int64_t kBusy = 4096 * 1024, kOnCpu = 2000 * 1024;  // pixels
  constexpr int64_t kBytesPerPixel = 4096;  // more than any backbone takes on its way to the features
  const int64_t pixels =
      device.is_cuda() ? std::min(kBusy, device_memory(device).total / 8 / kBytesPerPixel) : kOnCpu;
  return std::max<int64_t>(1, pixels / (size * size));
}

#ifdef POEM_HAS_CUDA
namespace {

// The most bytes that a pass through the network and back takes at once.
int64_t step_bytes(Network& network, int64_t images, int64_t size, at::Device device) {
  using namespace c10::cuda::CUDACachingAllocator;
  constexpr size_t kAggregate = 0;
  const auto allocated = [&] { return getDeviceStats(device.index()).allocated_bytes[kAggregate]; };
  resetPeakStats(device.index());
  const int64_t before = allocated().current;
  const at::Tensor pixels =
      at::zeros({images, network.spec().channels, size, size}, at::TensorOptions(at::kByte).device(device));
  network.logits(network.features(pixels)).sum().backward();
  for (const auto& [name, parameter] : network.parameters()) parameter.mutable_grad().reset();
  return allocated().peak - before;
}

int64_t images_per_step(const Config& config, const Objective& objective) {
  const int64_t outliers = config.mining.miner == "none" ? 0 : config.train.outlier_batch;
  return config.train.batch * objective.views() + outliers;
}

}  // namespace

// Two small steps tell what an image takes. A step is held twice: as it ran to warm up, and as it was
// recorded.
void check_gpu_memory(const Config& config, at::Device device) {
  if (!device.is_cuda()) return;
  const auto objective = make_objective(config.objective);
  const auto network = training_network(config, likely_spec(config, *objective));
  network->to(device);
  network->use_bf16(computes_in_bf16(config.train.precision, device));
  constexpr int64_t kFew = 4;
  const int64_t size = config.data.size, images = images_per_step(config, *objective);
  const int64_t few = step_bytes(*network, kFew, size, device),
                twice = step_bytes(*network, 2 * kFew, size, device);
  const int64_t need = 2 * (few + (twice - few) / kFew * std::max<int64_t>(0, images - kFew));
  c10::cuda::CUDACachingAllocator::emptyCache();
  const DeviceMemory memory = device_memory(device);
  if (need <= memory.free) return;
  throw Error("device cuda",
              fmt::format("steps of {} images of {}×{} pixels need about {} MiB, the GPU has {} of {} free",
                          images, size, size, need >> 20, memory.free >> 20, memory.total >> 20),
              "lower train.batch and train.outlier_batch, or data.size");
}

#else

void check_gpu_memory(const Config&, at::Device) {}

#endif

}  // namespace poem

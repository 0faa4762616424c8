#include "train/replay.h"

#include <ATen/ATen.h>

#ifdef POEM_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace poem {

#ifdef POEM_HAS_CUDA

// A graph cannot be recorded on the default stream, and libraries set themselves up during their first calls:
// a few calls run as they are on a stream of their own, the next is recorded there.
struct Replay::Recording {
  explicit Recording(at::Device device) : stream(c10::cuda::getStreamFromPool(false, device.index())) {}

  static constexpr int kWarmUp = 3;
  c10::cuda::CUDAStream stream;
  std::vector<at::Tensor> inputs;  // where the graph reads them
  at::cuda::CUDAGraph graph;
  int calls = 0;

  bool matches(const std::vector<at::Tensor>& others) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].sizes() != others[i].sizes()) return false;
    }
    return true;
  }

  void operator()(const Body& body, const std::vector<at::Tensor>& given) {
    if (inputs.empty()) {
      for (const at::Tensor& tensor : given) inputs.push_back(tensor.clone());
    }
    if (!matches(given)) return body(given);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].copy_(given[i], /*non_blocking=*/true);
    if (calls <= kWarmUp) {
      c10::cuda::device_synchronize();
      const c10::cuda::CUDAStreamGuard guard(stream);
      if (calls == kWarmUp) graph.capture_begin();
      body(inputs);
      if (calls == kWarmUp) graph.capture_end();
      ++calls;
      c10::cuda::device_synchronize();
      if (calls <= kWarmUp) return;
    }
    graph.replay();
  }
};

#else

struct Replay::Recording {
  void operator()(const Body& body, const std::vector<at::Tensor>& inputs) { body(inputs); }
};

#endif

Replay::Replay(Body body, [[maybe_unused]] at::Device device) : body_(std::move(body)) {
#ifdef POEM_HAS_CUDA
  if (device.is_cuda()) recording_ = std::make_unique<Recording>(device);
#endif
}
Replay::~Replay() = default;
Replay::Replay(Replay&&) noexcept = default;
Replay& Replay::operator=(Replay&&) noexcept = default;

void Replay::operator()(const std::vector<at::Tensor>& inputs) {
  recording_ == nullptr ? body_(inputs) : (*recording_)(body_, inputs);
}

}  // namespace poem

// Runs a function of tensors again and again. On a GPU it is recorded after a few calls as a CUDA graph,
// which is then replayed: the thousand kernels of a training step start as one.
//
//   Replay step([&](const std::vector<at::Tensor>& in) { … forward, backward, update … }, device);
//   step({images, labels});
//
// The function must not wait for the GPU, and what else it reads must stay where it is (a learning rate is a
// tensor). Inputs of another shape than the first, such as those of a last, smaller batch, run without the
// graph.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace poem {

class Replay {
 public:
  using Body = std::function<void(const std::vector<at::Tensor>&)>;
  Replay(Body body, at::Device device);
  ~Replay();
  Replay(Replay&&) noexcept;
  Replay& operator=(Replay&&) noexcept;

  void operator()(const std::vector<at::Tensor>& inputs);

 private:
  struct Recording;
  Body body_;
  std::unique_ptr<Recording> recording_;  // null on the CPU
};

}  // namespace poem

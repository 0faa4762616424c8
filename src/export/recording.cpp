#include "export/recording.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <algorithm>

#include "poem/detector.h"
#include "poem/error.h"
#include "poem/random.h"

namespace poem {
namespace {

using torch::jit::Stack;

constexpr int64_t kUnknown = -1;

at::Tensor example_images(const Detector& detector, int64_t count) {
  const int64_t channels = detector.network->spec().channels, size = detector.size;
  at::Tensor pixels = at::empty({count, channels, size, size}, at::kByte);
  Stream stream(0, "export", static_cast<uint64_t>(count));
  std::generate_n(pixels.data_ptr<uint8_t>(), pixels.numel(),
                  [&] { return static_cast<uint8_t>(stream.below(256)); });
  return pixels;
}

std::vector<Output> compute(const Detector& detector, const at::Tensor& images) {
  const Batch batch = detector.forward(images);
  const at::Tensor score = detector.score->formula(batch),
                   keeps = score.to(at::kDouble) >= *detector.threshold;
  std::vector<Output> outputs;
  if (detector.network->classifies()) {
    outputs = {
        {"logits", "of the classes, before softmax", batch.logits},
        {"probability", "of the most likely class", (batch.logits / detector.temperature).softmax(1).amax(1)},
        {"verdict", "index of the class, or -1 for unknown",
         at::where(keeps, batch.logits.argmax(1), kUnknown)}};
  } else {
    outputs = {{"verdict", "0 for known, or -1 for unknown", at::where(keeps, 0, kUnknown)}};
  }
  outputs.push_back({"score", "higher means known; known from the threshold on", score});
  outputs.push_back({"features", "what the network's last layer sees", batch.features});
  return outputs;
}

Stack inputs_of(const Recording& recording, const at::Tensor& images) {
  Stack inputs = {images};
  for (const auto& [name, tensor] : recording.tensors) inputs.emplace_back(tensor);
  return inputs;
}

// Runs the graph on other images, and on more of them, than it was recorded with.
void check(const Recording& recording, const Detector& detector) {
  const at::Tensor images = example_images(detector, recording.images.size(0) + 1);
  Stack stack = inputs_of(recording, images);
  torch::jit::InterpreterState(torch::jit::Code(recording.graph, "detector")).run(stack);
  const std::vector<Output> expected = compute(detector, images);
  for (size_t i = 0; i < expected.size(); ++i) {
    const at::Tensor& value = stack.at(i).toTensor();
    if (value.sizes() == expected[i].example.sizes() &&
        at::allclose(value.to(at::kDouble), expected[i].example.to(at::kDouble), 1e-4, 1e-4, true))
      continue;
    throw Error("score '" + detector.score->name() + "'",
                "cannot be exported: its computation is not recorded",
                "define Score::formula() for it with LibTorch's operators");
  }
}

}  // namespace

bool Recording::uses(size_t input) const { return graph->inputs().at(input)->hasUses(); }

uint64_t Recording::bytes() const {
  uint64_t sum = 0;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (uses(i + 1)) sum += tensors[i].second.nbytes();
  for (const torch::jit::Node* node : graph->nodes()) {
    if (node->kind() != c10::prim::Constant) continue;
    const c10::IValue value = *torch::jit::toIValue(node->output());
    if (value.isTensor()) sum += value.toTensor().nbytes();
  }
  return sum;
}

Recording record(const Detector& detector) {
  detector.network->train(false);
  // With gradients, because a network may take a short cut without them that writes in place.
  const at::AutoGradMode gradients(true);
  Recording recording;
  recording.images = example_images(detector, 2);
  recording.tensors = detector.network->parameters();
  const Network::Named buffers = detector.network->buffers();
  recording.tensors.insert(recording.tensors.end(), buffers.begin(), buffers.end());
  const auto traced = torch::jit::tracer::trace(
      inputs_of(recording, recording.images),
      [&](const Stack& inputs) {
        recording.outputs = compute(detector, inputs.at(0).toTensor());
        Stack outputs;
        for (const Output& output : recording.outputs) outputs.emplace_back(output.example);
        return outputs;
      },
      [](const at::Tensor&) { return ""; }, /*strict=*/true, /*force_outplace=*/true);
  recording.graph = traced.first->graph;
  check(recording, detector);
  return recording;
}

}  // namespace poem

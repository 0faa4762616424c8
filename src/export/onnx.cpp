#include "export/onnx.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/json_text.h"
#include "core/text.h"
#include "detect/threshold.h"
#include "export/onnx_model.h"
#include "export/operators.h"
#include "export/recording.h"
#include "poem/detector.h"
#include "poem/error.h"

namespace poem {
namespace {

void check(const Detector& detector) {
  check_threshold(detector);
  const std::string& name = detector.score->name();
  if (needs(name, kNetwork))
    throw Error("score '" + name + "'", "needs the network's gradients and layers, which ONNX does not have",
                "train with one of these scores: " + listed(exportable_scores()));
}

// A score may bring many tensors: KNN has all training features.
void check_size(const Recording& recording, const Detector& detector) {
  constexpr uint64_t kProtobuf = INT32_MAX, kNodes = 1 << 20;  // bytes; the nodes of a model take less
  const uint64_t bytes = recording.bytes();
  if (bytes + kNodes > kProtobuf)
    throw Error("score '" + detector.score->name() + "'",
                fmt::format("makes a model of {} MiB, and ONNX models end at 2048 MiB", bytes >> 20),
                "train with another score, such as energy, or with fewer images");
}

// What a program needs beside the outputs.
void add_metadata(const Detector& detector, OnnxModel& model) {
  const auto text = [](const nlohmann::json& value) { return json_text(value); };
  model.add_metadata("classes", text(detector.class_names));
  model.add_metadata("score", detector.score->name());
  model.add_metadata("threshold", text(*detector.threshold));
  if (detector.unsure) model.add_metadata("unsure_threshold", text(detector.unsure->threshold));
  model.add_metadata("size", text(detector.size));
}

}  // namespace

std::vector<std::string> exportable_scores() {
  const std::vector<std::string> all = score_names();
  std::vector<std::string> names;
  std::copy_if(all.begin(), all.end(), std::back_inserter(names),
               [](const std::string& name) { return !needs(name, kNetwork); });
  return names;
}

std::string onnx_model(const Detector& detector) {
  check(detector);
  const Recording recording = record(detector);
  check_size(recording, detector);
  OnnxModel model("detector");
  std::vector<std::string> inputs = {"images"};
  model.add_input(
      inputs[0], recording.images,
      fmt::format("raw pixels, 0 to 255; the shorter side resized to {}, the centre cut out", detector.size));
  for (const auto& [name, tensor] : recording.tensors) {
    if (recording.uses(inputs.size())) model.add_tensor(name, tensor);
    inputs.push_back(name);
  }
  const std::vector<std::string> results = add_operators(*recording.graph, inputs, model);
  for (size_t i = 0; i < results.size(); ++i) {
    const Output& output = recording.outputs[i];
    model.add_output(output.name, results[i], output.example, output.meaning);
  }
  add_metadata(detector, model);
  return model.bytes();
}

}  // namespace poem

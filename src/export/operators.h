// LibTorch's operators as ONNX's.
//
//   OnnxModel model("detector");
//   std::vector<std::string> outputs = add_operators(*recording.graph, input_names, model);
#pragma once
#include <string>
#include <vector>

namespace torch::jit {
struct Graph;
}

namespace poem {

class OnnxModel;

// Adds the graph's nodes to the model and returns the names of its outputs. `inputs` are names, in the model,
// of the graph's inputs. An operator that has no translation is an Error that names it.
std::vector<std::string> add_operators(const torch::jit::Graph& graph, const std::vector<std::string>& inputs,
                                       OnnxModel& model);

}  // namespace poem

// An ONNX model as it is built, node by node, and its file's bytes (https://onnx.ai, opset 17).
//
//   OnnxModel model("double");
//   model.add_input("x", example, "the pixels");
//   const std::string y = model.add_node("Mul", {"x", model.add_tensor(at::scalar_tensor(2.0f))});
//   model.add_output("y", y, example, "twice as much");
//   write_file("double.onnx", model.bytes());
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/protobuf.h"

namespace poem {

class OnnxModel {
 public:
  using Names = std::vector<std::string>;
  using Attributes = std::vector<std::pair<std::string, std::variant<int64_t, double, std::vector<int64_t>>>>;

  explicit OnnxModel(const std::string& name);

  // Returns the name of the node's result.
  std::string add_node(const std::string& op, const Names& inputs, const Attributes& attributes = {});
  // For an operator with two results.
  std::pair<std::string, std::string> add_node_of_two(const std::string& op, const Names& inputs,
                                                      const Attributes& attributes);
  // A constant, under a name of its own or a new one.
  void add_tensor(const std::string& name, const at::Tensor& values);
  std::string add_tensor(const at::Tensor& values);
  // Of the example's type and shape, except that the first dimension, the batch, is free.
  void add_input(const std::string& name, const at::Tensor& example, const std::string& meaning);
  // `value` is the result of a node.
  void add_output(const std::string& name, const std::string& value, const at::Tensor& example,
                  const std::string& meaning);
  void add_metadata(const std::string& key, const std::string& value);

  std::string bytes() const;

  // ONNX's number for a type: float32, float64, uint8, int64 or bool.
  static int64_t number_of(at::ScalarType type);

 private:
  void write_node(const std::string& op, const Names& inputs, const Names& outputs,
                  const Attributes& attributes);

  Message graph_, metadata_;
  std::string new_name(const std::string& kind) { return kind + std::to_string(++made_); }
  int64_t made_ = 0;
};

}  // namespace poem

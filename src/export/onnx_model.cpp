#include "export/onnx_model.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <string_view>

#include "poem/version.h"

namespace poem {
namespace {

constexpr int64_t kIrVersion = 8, kOpset = 17;  // what runtimes of 2022 and later read

// Fields of the messages in onnx.proto.
enum ModelField {
  kIr = 1,
  kProducer = 2,
  kProducerVersion = 3,
  kGraph = 7,
  kOpsetImport = 8,
  kMetadata = 14
};
enum OpsetField { kOpsetVersion = 2 };
enum EntryField { kKey = 1, kValue = 2 };
enum GraphField { kNode = 1, kGraphName = 2, kInitializer = 5, kInput = 11, kOutput = 12 };
enum NodeField { kNodeInput = 1, kNodeOutput = 2, kOperator = 4, kAttribute = 5 };
enum AttributeField { kAttributeName = 1, kFloat = 2, kInt = 3, kInts = 8, kKind = 20 };
enum AttributeKind : int64_t { kIsFloat = 1, kIsInt = 2, kIsInts = 7 };
enum TensorField { kDims = 1, kDataType = 2, kTensorName = 8, kRawData = 9 };
enum ValueField { kValueName = 1, kType = 2, kDocumentation = 3 };
enum TypeField { kTensorType = 1 };
enum TensorTypeField { kElement = 1, kShape = 2 };
enum ShapeField { kDimension = 1 };
enum DimensionField { kSize = 1, kSymbol = 2 };

Message attribute_message(const OnnxModel::Attributes::value_type& attribute) {
  Message message;
  message.add(kAttributeName, attribute.first);
  if (const auto* whole = std::get_if<int64_t>(&attribute.second))
    return message.add(kInt, *whole).add(kKind, kIsInt);
  if (const auto* real = std::get_if<double>(&attribute.second))
    return message.add(kFloat, static_cast<float>(*real)).add(kKind, kIsFloat);
  for (const int64_t value : std::get<std::vector<int64_t>>(attribute.second)) message.add(kInts, value);
  return message.add(kKind, kIsInts);
}

Message value_message(const std::string& name, const at::Tensor& example, const std::string& meaning) {
  Message shape;
  shape.add(kDimension, Message().add(kSymbol, "batch"));
  for (const int64_t size : example.sizes().slice(1)) shape.add(kDimension, Message().add(kSize, size));
  Message tensor;
  tensor.add(kElement, OnnxModel::number_of(example.scalar_type())).add(kShape, shape);
  return Message()
      .add(kValueName, name)
      .add(kType, Message().add(kTensorType, tensor))
      .add(kDocumentation, meaning);
}

}  // namespace

OnnxModel::OnnxModel(const std::string& name) { graph_.add(kGraphName, name); }

void OnnxModel::write_node(const std::string& op, const Names& inputs, const Names& outputs,
                           const Attributes& attributes) {
  Message node;
  for (const std::string& input : inputs) node.add(kNodeInput, input);
  for (const std::string& output : outputs) node.add(kNodeOutput, output);
  node.add(kOperator, op);
  for (const auto& attribute : attributes) node.add(kAttribute, attribute_message(attribute));
  graph_.add(kNode, node);
}

std::string OnnxModel::add_node(const std::string& op, const Names& inputs, const Attributes& attributes) {
  const std::string output = new_name(op);
  write_node(op, inputs, {output}, attributes);
  return output;
}

std::pair<std::string, std::string> OnnxModel::add_node_of_two(const std::string& op, const Names& inputs,
                                                               const Attributes& attributes) {
  const std::string first = new_name(op), second = new_name(op);
  write_node(op, inputs, {first, second}, attributes);
  return {first, second};
}

void OnnxModel::add_tensor(const std::string& name, const at::Tensor& values) {
  const at::Tensor plain = values.detach().cpu().contiguous();
  Message tensor;
  for (const int64_t size : plain.sizes()) tensor.add(kDims, size);
  tensor.add(kDataType, number_of(plain.scalar_type())).add(kTensorName, name);
  tensor.add(kRawData, std::string_view(static_cast<const char*>(plain.data_ptr()), plain.nbytes()));
  graph_.add(kInitializer, tensor);
}

std::string OnnxModel::add_tensor(const at::Tensor& values) {
  const std::string name = new_name("constant");
  add_tensor(name, values);
  return name;
}

void OnnxModel::add_input(const std::string& name, const at::Tensor& example, const std::string& meaning) {
  graph_.add(kInput, value_message(name, example, meaning));
}

void OnnxModel::add_output(const std::string& name, const std::string& value, const at::Tensor& example,
                           const std::string& meaning) {
  write_node("Identity", {value}, {name}, {});
  graph_.add(kOutput, value_message(name, example, meaning));
}

void OnnxModel::add_metadata(const std::string& key, const std::string& value) {
  metadata_.add(kMetadata, Message().add(kKey, key).add(kValue, value));
}

std::string OnnxModel::bytes() const {
  return Message()
             .add(kIr, kIrVersion)
             .add(kProducer, "poem")
             .add(kProducerVersion, version())
             .add(kOpsetImport, Message().add(kOpsetVersion, kOpset))
             .add(kGraph, graph_)
             .bytes() +
         metadata_.bytes();
}

int64_t OnnxModel::number_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return 1;
    case at::kByte:
      return 2;
    case at::kLong:
      return 7;
    case at::kBool:
      return 9;
    case at::kDouble:
      return 11;
    default:
      TORCH_CHECK(false, "ONNX files of poem have no elements of type ", type);
  }
}

}  // namespace poem

#include "export/operators.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <unordered_map>
#include <utility>

#include "export/onnx_model.h"
#include "poem/error.h"

namespace poem {
namespace {

using torch::jit::Node;
using torch::jit::Value;
using Wholes = std::vector<int64_t>;

// One call of an operator: its arguments, and the nodes of the model that give the same results.
class Call {
 public:
  using Names = std::unordered_map<const Value*, std::string>;

  // `names` has the model's name for every value that was computed so far.
  Call(const Node& node, Names& names, OnnxModel& model) : node_(node), names_(names), model_(model) {}

  // Arguments by their place. A tensor is a name in the model.
  bool flag(size_t i) const { return constant(i).toBool(); }
  int64_t whole(size_t i) const { return constant(i).toInt(); }
  double number(size_t i) const { return constant(i).toScalar().toDouble(); }
  Wholes wholes(size_t i) const;
  Wholes pair(size_t i) const;  // height and width; one number stands for both
  bool is_number(size_t i) const { return !node_.input(i)->type()->isSubtypeOf(*c10::TensorType::get()); }
  bool is_none(size_t i) const { return node_.input(i)->mustBeNone(); }
  at::ScalarType type(size_t i) const { return type_of(node_.input(i)); }
  int64_t size(size_t i, int64_t dimension) const;
  std::string tensor(size_t i) { return name_of(node_.input(i)); }
  std::string tensor(size_t i, at::ScalarType type);  // numbers too, in this type
  OnnxModel::Names tensors(size_t i);                 // of a list
  at::ScalarType result_type() const { return type_of(node_.output(0)); }

  // Adds a node, or a constant, to the model and returns the name of its result.
  std::string add(const std::string& op, const OnnxModel::Names& inputs,
                  const OnnxModel::Attributes& attributes = {}) {
    return model_.add_node(op, inputs, attributes);
  }
  std::pair<std::string, std::string> add_of_two(const std::string& op, const OnnxModel::Names& inputs,
                                                 const OnnxModel::Attributes& attributes) {
    return model_.add_node_of_two(op, inputs, attributes);
  }
  std::string add(const Wholes& constant) { return model_.add_tensor(at::tensor(constant, at::kLong)); }

  void result(const std::string& name, size_t i = 0) { names_[node_.output(i)] = name; }
  void require(bool fits, const char* why) const {
    if (!fits) refuse(why);
  }
  [[noreturn]] void refuse(const std::string& why = "") const;

 private:
  c10::IValue constant(size_t i) const { return constant(node_.input(i)); }
  c10::IValue constant(const Value* value) const;
  at::ScalarType type_of(const Value* value) const;
  std::string name_of(const Value* value);

  const Node& node_;
  Names& names_;
  OnnxModel& model_;
};

void Call::refuse(const std::string& why) const {
  throw Error(std::string("operator ") + node_.kind().toQualString(),
              "has no translation to ONNX" + (why.empty() ? "" : ": " + why),
              "use another score, or add a rule to src/export/operators.cpp");
}

c10::IValue Call::constant(const Value* value) const {
  const auto known = torch::jit::toIValue(value);
  require(known.has_value(), "an argument depends on the images");
  return *known;
}

Wholes Call::wholes(size_t i) const {
  Wholes values;
  for (const Value* value : node_.input(i)->node()->inputs()) values.push_back(constant(value).toInt());
  return values;
}

Wholes Call::pair(size_t i) const {
  const Wholes values = wholes(i);
  return {values.at(0), values.back()};
}

at::ScalarType Call::type_of(const Value* value) const {
  const auto type = value->type()->cast<c10::TensorType>();
  require(type && type->scalarType(), "a value is not a tensor");
  return *type->scalarType();
}

int64_t Call::size(size_t i, int64_t dimension) const {
  const auto type = node_.input(i)->type()->cast<c10::TensorType>();
  require(type && type->sizes()[dimension], "the shape of an argument is not known");
  return *type->sizes()[dimension];
}

std::string Call::name_of(const Value* value) {
  std::string& name = names_[value];
  if (name.empty()) name = model_.add_tensor(constant(value).toTensor());
  return name;
}

std::string Call::tensor(size_t i, at::ScalarType to) {
  if (is_number(i)) return model_.add_tensor(at::scalar_tensor(constant(i).toScalar(), to));
  return type(i) == to ? tensor(i) : add("Cast", {tensor(i)}, {{"to", OnnxModel::number_of(to)}});
}

OnnxModel::Names Call::tensors(size_t i) {
  OnnxModel::Names names;
  for (const Value* value : node_.input(i)->node()->inputs()) {
    require(type_of(value) == result_type(), "its arguments have different types");
    names.push_back(name_of(value));
  }
  return names;
}

using Rule = void (*)(Call&);

void same(Call& call) { call.result(call.tensor(0, call.result_type())); }

void unary(Call& call, const char* op) { call.result(call.add(op, {call.tensor(0)})); }

void binary(Call& call, const char* op, size_t first = 0, size_t second = 1) {
  const at::ScalarType type = call.result_type();
  call.result(call.add(op, {call.tensor(first, type), call.tensor(second, type)}));
}

void sum_of_two(Call& call, const char* op, size_t first = 0, size_t second = 1) {
  call.require(call.number(2) == 1, "alpha is not 1");
  binary(call, op, first, second);
}

void compare(Call& call, const char* op) {
  const at::ScalarType type = call.type(0);
  call.require(call.is_number(1) || call.type(1) == type, "its arguments have different types");
  call.result(call.add(op, {call.tensor(0), call.tensor(1, type)}));
}

// In opset 17 the axes are an attribute, except those of ReduceSum.
void reduce(Call& call, const char* op, size_t axes = 1) {
  call.result(call.add(op, {call.tensor(0, call.result_type())},
                       {{"axes", call.wholes(axes)}, {"keepdims", int64_t{call.flag(axes + 1)}}}));
}

void sum(Call& call) {
  call.result(call.add("ReduceSum", {call.tensor(0, call.result_type()), call.add(call.wholes(1))},
                       {{"keepdims", int64_t{call.flag(2)}}}));
}

void norm(Call& call) {
  call.require(call.number(1) == 2, "only lengths");
  reduce(call, "ReduceL2", 2);
}

void argmax(Call& call, size_t result = 0) {
  const OnnxModel::Attributes attributes = {{"axis", call.whole(1)}, {"keepdims", int64_t{call.flag(2)}}};
  call.result(call.add("ArgMax", {call.tensor(0)}, attributes), result);
}

// Along one dimension: the largest, and where it is.
void max(Call& call) {
  const OnnxModel::Attributes attributes = {{"axes", Wholes{call.whole(1)}},
                                            {"keepdims", int64_t{call.flag(2)}}};
  call.result(call.add("ReduceMax", {call.tensor(0)}, attributes));
  argmax(call, 1);
}

void topk(Call& call) {
  const auto [values, places] =
      call.add_of_two("TopK", {call.tensor(0), call.add({call.whole(1)})},
                      {{"axis", call.whole(2)}, {"largest", int64_t{call.flag(3)}}});
  call.result(values);
  call.result(places, 1);
}

// log(eᵃ + eᵇ) = max(a, b) + log(1 + e^−|a − b|)
void logaddexp(Call& call) {
  const std::string a = call.tensor(0), b = call.tensor(1);
  const std::string apart = call.add("Neg", {call.add("Abs", {call.add("Sub", {a, b})})});
  call.result(call.add("Add", {call.add("Max", {a, b}), call.add("Softplus", {apart})}));
}

void along_axis(Call& call, const char* op) {
  call.result(call.add(op, {call.tensor(0)}, {{"axis", call.whole(1)}}));
}

void with_axis(Call& call, const char* op) {
  call.result(call.add(op, {call.tensor(0), call.add({call.whole(1)})}));
}

void narrow(Call& call) {
  const int64_t dimension = call.whole(1), start = call.whole(2), end = start + call.whole(3);
  if (start == 0 && end == call.size(0, dimension)) return call.result(call.tensor(0));
  call.result(call.add("Slice", {call.tensor(0), call.add({start}), call.add({end}), call.add({dimension})}));
}

void full_like(Call& call) {
  call.result(call.add("Expand", {call.tensor(1, call.result_type()), call.add("Shape", {call.tensor(0)})}));
}

void flatten(Call& call) {
  call.require(call.whole(1) == 1 && call.whole(2) == -1, "only all dimensions but the first");
  call.result(call.add("Flatten", {call.tensor(0)}, {{"axis", int64_t{1}}}));
}

void addmm(Call& call) {
  call.result(call.add("Gemm", {call.tensor(1), call.tensor(2), call.tensor(0)},
                       {{"beta", call.number(3)}, {"alpha", call.number(4)}}));
}

void linear(Call& call) {
  call.result(call.add("Gemm", {call.tensor(0), call.tensor(1), call.tensor(2)}, {{"transB", int64_t{1}}}));
}

void convolution(Call& call) {
  call.require(!call.flag(6), "only without transposition");
  const Wholes padding = call.pair(4);
  OnnxModel::Names inputs = {call.tensor(0), call.tensor(1)};
  if (!call.is_none(2)) inputs.push_back(call.tensor(2));
  call.result(call.add("Conv", inputs,
                       {{"strides", call.pair(3)},
                        {"pads", Wholes{padding[0], padding[1], padding[0], padding[1]}},
                        {"dilations", call.pair(5)},
                        {"group", call.whole(8)}}));
}

void batch_norm(Call& call) {
  call.require(!call.flag(5), "only with running statistics");
  call.result(call.add("BatchNormalization",
                       {call.tensor(0), call.tensor(1), call.tensor(2), call.tensor(3), call.tensor(4)},
                       {{"epsilon", call.number(7)}}));
}

void avg_pool2d(Call& call) {
  call.require(call.pair(3) == Wholes{0, 0} && !call.flag(4), "only without padding");
  const Wholes window = call.pair(1);
  call.result(
      call.add("AveragePool", {call.tensor(0)},
               {{"kernel_shape", window}, {"strides", call.wholes(2).empty() ? window : call.pair(2)}}));
}

void max_pool2d(Call& call) {
  call.require(call.pair(4) == Wholes{1, 1} && !call.flag(5), "only without dilation");
  const Wholes padding = call.pair(3);
  call.result(call.add("MaxPool", {call.tensor(0)},
                       {{"kernel_shape", call.pair(1)},
                        {"strides", call.pair(2)},
                        {"pads", Wholes{padding[0], padding[1], padding[0], padding[1]}}}));
}

// The operators that poem's networks and scores consist of.
const std::unordered_map<std::string, Rule>& rules() {
  static const std::unordered_map<std::string, Rule> rules = {
      {"aten::_convolution", convolution},
      {"aten::add", [](Call& c) { sum_of_two(c, "Add"); }},
      {"aten::addmm", addmm},
      {"aten::amax", [](Call& c) { reduce(c, "ReduceMax"); }},
      {"aten::amin", [](Call& c) { reduce(c, "ReduceMin"); }},
      {"aten::argmax", [](Call& c) { argmax(c); }},
      {"aten::avg_pool2d", avg_pool2d},
      {"aten::batch_norm", batch_norm},
      {"aten::cat",
       [](Call& c) {
         c.result(c.add("Concat", c.tensors(0), {{"axis", c.whole(1)}}));
       }},
      {"aten::clamp_min", [](Call& c) { binary(c, "Max"); }},
      {"aten::div", [](Call& c) { binary(c, "Div"); }},
      {"aten::empty_like", same},  // 1 − x is: a tensor like x, filled with 1, less x
      {"aten::eq", [](Call& c) { compare(c, "Equal"); }},
      {"aten::exp", [](Call& c) { unary(c, "Exp"); }},
      {"aten::flatten", flatten},
      {"aten::full_like", full_like},
      {"aten::ge", [](Call& c) { compare(c, "GreaterOrEqual"); }},
      {"aten::index_select",
       [](Call& c) {
         c.result(c.add("Gather", {c.tensor(0), c.tensor(2)}, {{"axis", c.whole(1)}}));
       }},
      {"aten::linear", linear},
      {"aten::log_softmax", [](Call& c) { along_axis(c, "LogSoftmax"); }},
      {"aten::logaddexp", logaddexp},
      {"aten::logsumexp", [](Call& c) { reduce(c, "ReduceLogSumExp"); }},
      {"aten::masked_fill",
       [](Call& c) {
         c.result(c.add("Where", {c.tensor(1), c.tensor(2, c.result_type()), c.tensor(0)}));
       }},
      {"aten::max", max},
      {"aten::max_pool2d", max_pool2d},
      {"aten::mean", [](Call& c) { reduce(c, "ReduceMean"); }},
      {"aten::minimum", [](Call& c) { binary(c, "Min"); }},
      {"aten::mm", [](Call& c) { binary(c, "MatMul"); }},
      {"aten::mul", [](Call& c) { binary(c, "Mul"); }},
      {"aten::narrow", narrow},
      {"aten::neg", [](Call& c) { unary(c, "Neg"); }},
      {"aten::norm", norm},
      {"aten::pow", [](Call& c) { binary(c, "Pow"); }},
      {"aten::relu", [](Call& c) { unary(c, "Relu"); }},
      {"aten::rsub", [](Call& c) { sum_of_two(c, "Sub", 1, 0); }},
      {"aten::softmax", [](Call& c) { along_axis(c, "Softmax"); }},
      {"aten::sqrt", [](Call& c) { unary(c, "Sqrt"); }},
      {"aten::square", [](Call& c) { binary(c, "Mul", 0, 0); }},
      {"aten::squeeze", [](Call& c) { with_axis(c, "Squeeze"); }},
      {"aten::sub", [](Call& c) { sum_of_two(c, "Sub"); }},
      {"aten::sum", sum},
      {"aten::t",
       [](Call& c) {
         c.result(c.add("Transpose", {c.tensor(0)}, {{"perm", Wholes{1, 0}}}));
       }},
      {"aten::to", same},
      {"aten::topk", topk},
      {"aten::unsqueeze", [](Call& c) { with_axis(c, "Unsqueeze"); }},
      {"aten::where",
       [](Call& c) {
         const at::ScalarType type = c.result_type();
         c.result(c.add("Where", {c.tensor(0), c.tensor(1, type), c.tensor(2, type)}));
       }},
  };
  return rules;
}

}  // namespace

std::vector<std::string> add_operators(const torch::jit::Graph& graph, const std::vector<std::string>& inputs,
                                       OnnxModel& model) {
  Call::Names names;
  for (size_t i = 0; i < inputs.size(); ++i) names[graph.inputs().at(i)] = inputs[i];
  for (const Node* node : graph.nodes()) {
    if (node->kind() == c10::prim::Constant || node->kind() == c10::prim::ListConstruct) continue;
    Call call(*node, names, model);
    const auto rule = rules().find(node->kind().toQualString());
    if (rule == rules().end()) call.refuse();
    rule->second(call);
  }
  std::vector<std::string> outputs;
  for (const Value* output : graph.outputs()) outputs.push_back(names.at(output));
  return outputs;
}

}  // namespace poem

// Messages in protobuf's wire format, field by field. Event files of TensorBoard and ONNX models need a few
// fields of a few messages: writing them takes less than a generated library would.
//
//   Message tensor;
//   tensor.add(kDims, int64_t{3}).add(kName, "bias").add(kRawData, bytes);
//   graph.add(kInitializer, tensor);
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace poem {

class Message {
 public:
  Message& add(int field, int64_t value);           // int32, int64, bool and enum fields
  Message& add(int field, float value);             // float
  Message& add(int field, double value);            // double
  Message& add(int field, std::string_view bytes);  // string and bytes
  Message& add(int field, const char* text) { return add(field, std::string_view(text)); }
  Message& add(int field, const Message& message) { return add(field, std::string_view(message.bytes_)); }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace poem

#include "core/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/file.h"
#include "poem/error.h"

namespace poem {
namespace {

using nlohmann::json;

constexpr std::pair<at::ScalarType, const char*> kTypes[] = {
    {at::kByte, "U8"},       {at::kChar, "I8"},  {at::kShort, "I16"}, {at::kInt, "I32"},
    {at::kLong, "I64"},      {at::kHalf, "F16"}, {at::kFloat, "F32"}, {at::kDouble, "F64"},
    {at::kBFloat16, "BF16"}, {at::kBool, "BOOL"}};

// Why bytes are not a safetensors file.
struct Damage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const char* type_name(at::ScalarType type) {
  for (const auto& [scalar, name] : kTypes) {
    if (scalar == type) return name;
  }
  AT_ERROR("no safetensors type for ", type);
}

at::ScalarType scalar_type(const std::string& name) {
  for (const auto& [scalar, known] : kTypes) {
    if (name == known) return scalar;
  }
  throw Damage("unknown type " + name);
}

// Strides must not overflow either, even for a tensor without elements.
uint64_t bytes_of(const std::vector<int64_t>& shape, at::ScalarType type) {
  auto bytes = static_cast<int64_t>(c10::elementSize(type));
  bool empty = false;
  for (const int64_t axis : shape) {
    if (axis < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(axis, 1), &bytes))
      throw Damage("impossible shape");
    empty |= axis == 0;
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

// `start`: where the bytes of tensors begin.
at::Tensor read_one(const json& entry, const InputFile& file, uint64_t start) {
  const auto type = scalar_type(entry.at("dtype").get<std::string>());
  const auto shape = entry.at("shape").get<std::vector<int64_t>>();
  const auto begin = entry.at("data_offsets").at(0).get<uint64_t>(),
             end = entry.at("data_offsets").at(1).get<uint64_t>();
  const uint64_t data = file.size() - start;
  if (begin > end || end > data || end - begin != bytes_of(shape, type)) {
    throw Damage(fmt::format("a tensor at bytes {} to {} of {}", begin, end, data));
  }
  at::Tensor tensor = at::empty(shape, at::TensorOptions(type));
  file.read_at(start + begin, tensor.data_ptr(), end - begin);
  return tensor;
}

TensorFile parse(const InputFile& file) {
  uint64_t length = 0;
  if (file.size() < sizeof length) throw Damage(fmt::format("{} bytes", file.size()));
  file.read_at(0, &length, sizeof length);
  if (length > file.size() - sizeof length) throw Damage("its header is cut off");
  std::string text(length, '\0');
  file.read_at(sizeof length, text.data(), length);
  const json header = json::parse(text);
  if (!header.is_object()) throw Damage("its header is not a map");
  TensorFile result;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      result.metadata = entry.get<std::map<std::string, std::string>>();
    } else {
      result.tensors[name] = read_one(entry, file, sizeof length + length);
    }
  }
  return result;
}

}  // namespace

const at::Tensor& TensorFile::tensor(const std::string& name) const {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    throw Error(path, "has no tensor '" + name + "'", "it was made by something else");
  return found->second;
}

const std::string& TensorFile::text(const std::string& name) const {
  const auto found = metadata.find(name);
  if (found == metadata.end())
    throw Error(path, "has no entry '" + name + "'", "it was made by something else");
  return found->second;
}

void write_safetensors(const std::string& path, const TensorFile& file) {
  json header = json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::vector<at::Tensor> parts;
  size_t offset = 0;
  for (const auto& [name, tensor] : file.tensors) {
    parts.push_back(tensor.detach().cpu().contiguous());
    const size_t bytes = parts.back().nbytes();
    header[name] = {{"dtype", type_name(tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data is aligned
  const uint64_t length = text.size();
  AtomicFile out(path);
  out.write(&length, sizeof length);
  out.write(text);
  for (const auto& part : parts) out.write(part.data_ptr(), part.nbytes());
  out.commit();
}

TensorFile read_safetensors(const std::string& path, const std::string& remedy) {
  std::string damage;
  try {
    TensorFile file = parse(InputFile(path));
    file.path = path;
    return file;
  } catch (const Damage& e) {
    damage = e.what();
  } catch (const json::exception& e) {
    damage = e.what();
  }
  throw Error(path, "is not a whole safetensors file: " + damage, remedy);
}

}  // namespace poem

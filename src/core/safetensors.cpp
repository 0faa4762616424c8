#include "core/safetensors.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "core/file.h"
#include "core/memory.h"
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

// What the header says of a tensor; its bytes are counted from the end of the header.
struct Entry {
  std::string name;
  at::ScalarType type;
  std::vector<int64_t> shape;
  uint64_t begin, end;
};

// `data`: how many bytes there are.
Entry parse_entry(const std::string& name, const json& entry, uint64_t data) {
  Entry found{name, scalar_type(entry.at("dtype").get<std::string>()),
              entry.at("shape").get<std::vector<int64_t>>(), entry.at("data_offsets").at(0).get<uint64_t>(),
              entry.at("data_offsets").at(1).get<uint64_t>()};
  if (found.begin > found.end || found.end > data ||
      found.end - found.begin != bytes_of(found.shape, found.type))
    throw Damage(fmt::format("a tensor at bytes {} to {} of {}", found.begin, found.end, data));
  return found;
}

// Tensors that overlap, which the format forbids, could take any multiple of the file's size.
void check_apart(std::vector<Entry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].begin < entries[i - 1].end)
      throw Damage(fmt::format("its tensors '{}' and '{}' overlap", entries[i - 1].name, entries[i].name));
  }
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
  const uint64_t start = sizeof length + length, data = file.size() - start;
  TensorFile result;
  std::vector<Entry> entries;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__")
      result.metadata = entry.get<std::map<std::string, std::string>>();
    else
      entries.push_back(parse_entry(name, entry, data));
  }
  check_apart(entries);
  check_memory(file.path(), data, "end other programs, or use a machine with more memory");
  for (const Entry& entry : entries) {
    at::Tensor tensor = at::empty(entry.shape, at::TensorOptions(entry.type));
    file.read_at(start + entry.begin, tensor.data_ptr(), entry.end - entry.begin);
    result.tensors[entry.name] = tensor;
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

#include "core/state_dict.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "core/memory.h"
#include "core/pickle.h"
#include "core/text.h"
#include "core/zip.h"
#include "poem/error.h"

namespace poem {
namespace {

using Kind = PickleValue::Kind;

constexpr const char* kRebuildTensor = "torch._utils._rebuild_tensor_v2";
constexpr const char* kRebuildParameter = "torch._utils._rebuild_parameter";
constexpr const char* kPickle = "/data.pkl";

constexpr std::pair<const char*, at::ScalarType> kStorages[] = {
    {"torch.FloatStorage", at::kFloat}, {"torch.DoubleStorage", at::kDouble},
    {"torch.HalfStorage", at::kHalf},   {"torch.BFloat16Storage", at::kBFloat16},
    {"torch.LongStorage", at::kLong},   {"torch.IntStorage", at::kInt},
    {"torch.ShortStorage", at::kShort}, {"torch.CharStorage", at::kChar},
    {"torch.ByteStorage", at::kByte},   {"torch.BoolStorage", at::kBool}};

[[noreturn]] void damaged(const std::string& where, const std::string& what) {
  throw Error(where, what, "save or copy the file again");
}

std::vector<std::string> known_names() {
  std::vector<std::string> names = {kRebuildTensor, kRebuildParameter};
  for (const auto& [name, type] : kStorages) names.emplace_back(name);
  return names;
}

// The files of the zip. torch.save puts them all into one folder of any name.
class Archive {
 public:
  explicit Archive(const std::string& path) : path_(path), zip_(path) {
    for (const ZipEntry& entry : zip_.entries()) {
      const size_t slash = entry.name.find('/');
      if (slash != std::string::npos && entry.name.substr(slash) == kPickle)
        folder_ = entry.name.substr(0, slash);
      entries_.emplace(entry.name, entry);
    }
    if (folder_.empty())
      throw Error(path, "is a zip file, but not of torch.save: it has no data.pkl",
                  "save the weights with torch.save(model.state_dict(), FILE)");
    const std::string order = folder_ + "/byteorder";
    if (const auto found = entries_.find(order);
        found != entries_.end() && (found->second.size != 6 || bytes(found->second) != "little"))
      throw Error(path, "was saved on a big-endian machine", "save it as safetensors");
  }

  std::string pickle() const {
    constexpr uint64_t kMost = uint64_t{1} << 24;
    const ZipEntry& entry = entries_.at(folder_ + kPickle);
    if (entry.size > kMost)
      damaged(path_, fmt::format("has a pickle of {} bytes, too many for a state dict", entry.size));
    return bytes(entry);
  }

  // All storages together: each alone may fit.
  void check_room() const {
    uint64_t bytes = 0;
    for (const auto& [name, entry] : entries_) {
      if (starts_with(name, folder_ + "/data/") && __builtin_add_overflow(bytes, entry.size, &bytes))
        damaged(path_, "claims an impossible size");
    }
    check_memory(path_, bytes, "save the state dict without the rest");
  }

  // A storage of so many elements.
  at::Tensor storage(const std::string& key, at::ScalarType type, int64_t count) const {
    const auto found = entries_.find(folder_ + "/data/" + key);
    if (found == entries_.end()) damaged(path_, "lacks data/" + key);
    const ZipEntry& entry = found->second;
    int64_t size = 0;
    if (count < 0 || __builtin_mul_overflow(count, static_cast<int64_t>(c10::elementSize(type)), &size) ||
        static_cast<uint64_t>(size) != entry.size)
      damaged(zip_.where(entry), fmt::format("has {} bytes for {} elements", entry.size, count));
    at::Tensor tensor = at::empty({count}, at::TensorOptions(type));
    ZipStream stream(zip_, entry);
    stream.read(tensor.data_ptr(), entry.size);
    stream.finish();
    return tensor;
  }

 private:
  std::string bytes(const ZipEntry& entry) const {
    ZipStream stream(zip_, entry);
    std::string text(entry.size, '\0');
    stream.read(text.data(), text.size());
    stream.finish();
    return text;
  }

  const std::string path_;
  const ZipFile zip_;
  std::string folder_;
  std::map<std::string, ZipEntry> entries_;
};

class StateDict {
 public:
  explicit StateDict(const std::string& path)
      : path_(path), archive_(path), pickle_(path, archive_.pickle(), known_names()) {}

  TensorFile read() {
    TensorFile file;
    file.path = path_;
    const PickleValue& dict = find_dict();
    archive_.check_room();
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const PickleValue &name = pickle_[dict.items[i]], &value = pickle_[dict.items[i + 1]];
      if (name.kind == Kind::kText && is_tensor(value)) file.tensors[name.text] = tensor(name.text, value);
    }
    return file;
  }

 private:
  static bool is_tensor(const PickleValue& value) { return value.kind == Kind::kCall; }

  // The dict that has tensors: the outermost one, or one that training scripts put it into.
  const PickleValue& find_dict() const {
    constexpr int kMostWrappers = 4;
    if (const PickleValue* found = find_dict(pickle_.root(), kMostWrappers)) return *found;
    throw Error(path_, "is not a state dict: it is not a dict of tensors",
                "save the weights with torch.save(model.state_dict(), FILE)");
  }
  const PickleValue* find_dict(const PickleValue& dict, int most) const {
    if (dict.kind != Kind::kDict || most == 0) return nullptr;
    std::map<std::string, const PickleValue*> wrapped;  // of a name that occurs twice the last, as in Python
    bool tensors = false;
    for (size_t i = 0; i < dict.items.size(); i += 2) {
      const std::string& name = pickle_[dict.items[i]].text;
      const PickleValue& value = pickle_[dict.items[i + 1]];
      tensors |= is_tensor(value);
      const bool wrapper =
          name == "state_dict" || name == "model_state_dict" || name == "model" || name == "net";
      if (wrapper && value.kind == Kind::kDict) wrapped[name] = &value;
    }
    if (wrapped.empty()) return tensors ? &dict : nullptr;  // else they are such as the number of the step
    std::pair<std::string, const PickleValue*> found;
    for (const auto& [name, value] : wrapped) {
      const PickleValue* inner = find_dict(*value, most - 1);
      if (inner == nullptr || inner == found.second) continue;
      if (found.second != nullptr)
        throw Error(path_, fmt::format("has state dicts under '{}' and '{}'", found.first, name),
                    "save one of them alone with torch.save(STATE_DICT, FILE)");
      found = {name, inner};
    }
    return found.second;
  }

  [[noreturn]] void fail(const std::string& name, const std::string& what) const {
    damaged(path_, fmt::format("tensor '{}' {}", name, what));
  }

  // The arguments of a call; at least so many.
  const std::vector<size_t>& arguments(const std::string& name, const PickleValue& call, size_t least) const {
    const std::vector<size_t>& items = pickle_[call.items.at(0)].items;
    if (items.size() < least) fail(name, "is rebuilt from too few arguments");
    return items;
  }

  int64_t whole(const std::string& name, const PickleValue& value) const {
    if (value.kind != Kind::kWhole || value.whole < 0) fail(name, "has an impossible shape or offset");
    return value.whole;
  }
  std::vector<int64_t> wholes(const std::string& name, const PickleValue& tuple) const {
    std::vector<int64_t> numbers;
    for (const size_t item : tuple.items) numbers.push_back(whole(name, pickle_[item]));
    return numbers;
  }

  // _rebuild_parameter(tensor, …), or _rebuild_tensor_v2(storage, offset, sizes, strides, …).
  at::Tensor tensor(const std::string& name, const PickleValue& call) {
    if (call.text == kRebuildParameter) {
      const PickleValue& inner = pickle_[arguments(name, call, 1)[0]];
      if (inner.kind != Kind::kCall || inner.text != kRebuildTensor)
        fail(name, "is a parameter of no tensor");
      return tensor(name, inner);
    }
    if (call.text != kRebuildTensor) fail(name, "is made by " + call.text);
    const std::vector<size_t>& parts = arguments(name, call, 4);
    const at::Tensor& elements = storage(name, pickle_[parts[0]]);
    const int64_t offset = whole(name, pickle_[parts[1]]);
    const std::vector<int64_t> sizes = wholes(name, pickle_[parts[2]]),
                               strides = wholes(name, pickle_[parts[3]]);
    check_inside(name, elements.numel(), offset, sizes, strides);
    return elements.as_strided(sizes, strides, offset);
  }

  // Whether all elements lie in the storage, and can be counted.
  void check_inside(const std::string& name, int64_t count, int64_t offset, const std::vector<int64_t>& sizes,
                    const std::vector<int64_t>& strides) const {
    constexpr size_t kMostDimensions = 8;
    if (sizes.size() > kMostDimensions) fail(name, fmt::format("has {} dimensions", sizes.size()));
    bool fits = sizes.size() == strides.size(), empty = false;
    int64_t last = offset, elements = 1;
    for (size_t i = 0; fits && i < sizes.size(); ++i) {
      int64_t reach = 0;
      empty |= sizes[i] == 0;
      fits = !__builtin_mul_overflow(std::max<int64_t>(sizes[i], 1) - 1, strides[i], &reach) &&
             !__builtin_add_overflow(last, reach, &last) &&
             !__builtin_mul_overflow(elements, std::max<int64_t>(sizes[i], 1), &elements);
    }
    if (!fits || (empty ? offset > count : last >= count)) fail(name, "lies beyond its storage");
  }

  // ('storage', type, key, device, elements); tensors may share one.
  const at::Tensor& storage(const std::string& name, const PickleValue& value) {
    if (value.kind != Kind::kPersistent) fail(name, "has no storage");
    const std::vector<size_t>& parts = pickle_[value.items.at(0)].items;
    if (parts.size() < 5) fail(name, "has no storage");
    const std::string &type = pickle_[parts[1]].text, &key = pickle_[parts[2]].text;
    const int64_t count = whole(name, pickle_[parts[4]]);
    const auto known = std::find_if(std::begin(kStorages), std::end(kStorages),
                                    [&](const auto& storage) { return type == storage.first; });
    if (known == std::end(kStorages)) fail(name, "has a storage of no known type");
    at::Tensor& loaded = storages_[{key, known->second}];
    if (!loaded.defined()) loaded = archive_.storage(key, known->second, count);
    return loaded;
  }

  const std::string path_;
  const Archive archive_;
  const Pickle pickle_;
  std::map<std::pair<std::string, at::ScalarType>, at::Tensor> storages_;
};

}  // namespace

TensorFile read_state_dict(const std::string& path) { return StateDict(path).read(); }

}  // namespace poem

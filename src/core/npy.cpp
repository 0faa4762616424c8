#include "core/npy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/memory.h"
#include "core/zip.h"
#include "poem/error.h"

namespace poem {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files are written in the machine's byte order");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::string_view kZipMagic = "PK\x03\x04";
constexpr const char* kRemedy = "free some memory, or save the array in parts";

struct Type {
  std::string_view code, name;  // in a header (without the byte order), and in Python
  size_t bytes;                 // of an element in the file
  at::ScalarType tensor;        // holds every value of the type, except large ones of uint64
};
constexpr Type kTypes[] = {
    {"b1", "bool", 1, at::kBool},    {"u1", "uint8", 1, at::kByte},    {"i1", "int8", 1, at::kChar},
    {"i2", "int16", 2, at::kShort},  {"i4", "int32", 4, at::kInt},     {"i8", "int64", 8, at::kLong},
    {"f2", "float16", 2, at::kHalf}, {"f4", "float32", 4, at::kFloat}, {"f8", "float64", 8, at::kDouble},
    {"u2", "uint16", 2, at::kInt},   {"u4", "uint32", 4, at::kLong},   {"u8", "uint64", 8, at::kLong}};

const Type& type_named(const std::string& where, const std::string& name) {
  for (const Type& known : kTypes) {
    if (known.name == name) return known;
  }
  throw Error(where, "has elements of type " + name,
              "save it as bool, integers of 8 to 64 bits, or float16 to float64");
}

const Type* find_type(const at::Tensor& array) {  // null if npy does not support it
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const Type& known) { return known.tensor == array.scalar_type(); });
  return found == std::end(kTypes) ? nullptr : found;
}

[[noreturn]] void broken(const std::string& where, const std::string& what) {
  throw Error(where, what, "write or download the file again");
}

// ---- the header -----------------------------------------------------------------------------------------

// The text that follows 'key': in the header, a Python dictionary.
std::string_view value_of(const std::string& where, std::string_view text, std::string_view key) {
  const size_t at = text.find(fmt::format("'{}'", key));
  const size_t colon = at == text.npos ? at : text.find(':', at);
  const size_t start = colon == text.npos ? colon : text.find_first_not_of(' ', colon + 1);
  if (start == text.npos) broken(where, fmt::format("the npy header has no '{}'", key));
  return text.substr(start);
}

// The type as a header writes it: '<f4', or a list where elements have fields.
std::string_view code_of(std::string_view text) {
  const size_t end = text.find('\'', 1);
  return text[0] == '\'' && end != text.npos ? text.substr(1, end - 1) : text.substr(0, text.find(']') + 1);
}

const Type* find_type(std::string_view code) {  // null if LibTorch does not support it
  for (const Type& known : kTypes) {
    if (code.size() == 3 && code.substr(1) == known.code &&
        std::string_view("<>|=").find(code[0]) != code.npos)
      return &known;
  }
  return nullptr;
}

std::vector<int64_t> shape_of(const std::string& where, std::string_view text) {
  const size_t end = text.find(')');
  if (text[0] != '(' || end == text.npos) broken(where, "the npy header's shape is not a tuple");
  std::vector<int64_t> shape;
  bool inside = false;
  for (const char c : text.substr(1, end - 1)) {
    if (c >= '0' && c <= '9') {
      if (!inside) shape.push_back(0);
      int64_t& axis = shape.back();
      if (axis > (int64_t{1} << 56)) broken(where, "the npy header's shape is too large");
      axis = axis * 10 + (c - '0');
    } else if (c != ' ' && c != ',' && c != 'L') {  // Python 2 wrote 10L
      broken(where, "the npy header's shape is not a tuple of sizes");
    }
    inside = c >= '0' && c <= '9';
  }
  return shape;
}

// The elements of an array of this shape; an axis of 0 counts as 1, so that no stride overflows either.
uint64_t count_of(const std::string& where, const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / 8;  // bytes of elements
  int64_t count = 1;
  for (const int64_t axis : shape) {
    if (__builtin_mul_overflow(count, std::max<int64_t>(axis, 1), &count) || count > kMost)
      broken(where, fmt::format("the npy header's shape ({}) is too large", fmt::join(shape, ", ")));
  }
  return std::count(shape.begin(), shape.end(), 0) > 0 ? 0 : static_cast<uint64_t>(count);
}

// The bytes of a .npy file up to its elements.
std::string npy_header(const std::string& type, const std::vector<int64_t>& shape) {
  std::string text = fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': ({}{}), }}", type,
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  text.append(63 - (10 + text.size()) % 64, ' ');  // elements start at a multiple of 64, after a line feed
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string header(kMagic);
  header += '\x01';
  header += '\x00';
  header.append(reinterpret_cast<const char*>(&length), sizeof length);
  return header + text;
}

std::string npy_header(const std::string& where, const at::Tensor& array) {
  const Type* known = find_type(array);
  if (known == nullptr) {
    throw Error(where, fmt::format("npy cannot hold elements of type {}", numpy_type(array)),
                "convert to float32 first");
  }
  return npy_header(fmt::format("'{}{}'", known->bytes == 1 ? '|' : '<', known->code), array.sizes().vec());
}

// ---- the elements ---------------------------------------------------------------------------------------

template <typename Number>
Number from_bytes(const uint8_t* from, bool swapped) {
  uint8_t bytes[sizeof(Number)];
  std::memcpy(bytes, from, sizeof bytes);
  if (swapped) std::reverse(bytes, bytes + sizeof bytes);
  Number value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

template <typename Stored, typename Element>
void convert(const uint8_t* from, size_t count, bool swapped, void* to) {
  auto* out = static_cast<Element*>(to);
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<Element>(from_bytes<Stored>(from + i * sizeof(Stored), swapped));
}

void check_fits_int64(const std::string& where, const uint8_t* from, size_t count, bool swapped) {
  for (size_t i = 0; i < count; ++i) {
    const auto value = from_bytes<uint64_t>(from + 8 * i, swapped);
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      throw Error(where, fmt::format("contains {}, which does not fit into an int64", value),
                  "save smaller numbers, or floats");
  }
}

// From the file's elements to the tensor's.
void convert(const std::string& where, const Type& type, bool swapped, const uint8_t* from, size_t count,
             void* to) {
  if (type.code == "b1") return convert<uint8_t, bool>(from, count, false, to);
  if (type.code == "u2") return convert<uint16_t, int32_t>(from, count, swapped, to);
  if (type.code == "u4") return convert<uint32_t, int64_t>(from, count, swapped, to);
  if (type.code == "u8") check_fits_int64(where, from, count, swapped);
  if (type.bytes == 2) return convert<uint16_t, uint16_t>(from, count, swapped, to);
  if (type.bytes == 4) return convert<uint32_t, uint32_t>(from, count, swapped, to);
  convert<uint64_t, uint64_t>(from, count, swapped, to);
}

// Whether the file's bytes can be used as the tensor's elements without conversion.
bool as_they_are(const Type& type, bool swapped) {
  return !swapped && type.code != "b1" && (type.code[0] != 'u' || type.bytes == 1);
}

at::Tensor allocate(const std::string& where, at::IntArrayRef shape, at::ScalarType type) {
  constexpr uint64_t kLittle = 64 << 20;  // too little to ask the system about
  uint64_t bytes = c10::elementSize(type);
  for (const int64_t axis : shape) bytes *= static_cast<uint64_t>(axis);
  if (bytes > kLittle) check_memory(where, bytes, kRemedy);
  return name_if_out_of_memory(where, kRemedy, [&] { return at::empty(shape, at::TensorOptions(type)); });
}

at::Tensor on_cpu(const at::Tensor& array) { return array.detach().to(at::kCPU).contiguous(); }

std::string_view bytes_of(const at::Tensor& array) {
  return {static_cast<const char*>(array.data_ptr()), array.nbytes()};
}

// The text of the header, a Python dictionary, and how many bytes come before the elements.
std::pair<std::string, uint64_t> read_header(const std::string& where, uint64_t file_bytes,
                                             ByteStream& file) {
  constexpr uint32_t kLongest = 1 << 20;
  if (file_bytes == 0) broken(where, "is empty");
  std::string start(std::min<uint64_t>(file_bytes, 12), '\0');
  file.read(start.data(), start.size());
  if (start.compare(0, kZipMagic.size(), kZipMagic) == 0)
    throw Error(where, "is an .npz, an archive of arrays", "save the one array with numpy.save");
  if (start.size() < 12 || start.compare(0, kMagic.size(), kMagic) != 0)
    broken(where, "is not a npy array (its first bytes are not \\x93NUMPY)");
  const int version = start[6];
  if (version < 1 || version > 3)
    broken(where, fmt::format("has npy version {}; poem reads versions 1, 2 and 3", version));
  const size_t fixed = version == 1 ? 10 : 12;
  uint32_t length = 0;
  std::memcpy(&length, start.data() + 8, fixed - 8);
  if (file_bytes < fixed + uint64_t{length}) broken(where, "ends inside its npy header");
  if (length > kLongest) broken(where, fmt::format("has a npy header of {} bytes", length));
  std::string text = start.substr(fixed, length);
  const size_t got = text.size();
  text.resize(length);
  file.read(text.data() + got, length - got);
  return {text, fixed + length};
}

}  // namespace

StoredArray::StoredArray(std::string where, uint64_t file_bytes, Open open)
    : where_(std::move(where)), open_(std::move(open)) {
  std::string text;
  std::tie(text, header_bytes_) = read_header(where_, file_bytes, *open_());
  const std::string_view code = code_of(value_of(where_, text, "descr"));
  shape_ = shape_of(where_, value_of(where_, text, "shape"));
  fortran_ = value_of(where_, text, "fortran_order").substr(0, 4) == "True";
  const Type* type = find_type(code);
  type_ = type ? type->name : code;
  if (!type) return;  // fine, as long as nobody reads it
  swapped_ = code[0] == '>' && type->bytes > 1;
  const uint64_t want = count_of(where_, shape_) * type->bytes, got = file_bytes - header_bytes_;
  if (got != want)
    broken(where_, fmt::format("has {} bytes of elements, its shape ({}) needs {}", got,
                               fmt::join(shape_, ", "), want));
}

uint64_t StoredArray::bytes() const {
  return count_of(where_, shape_) * c10::elementSize(type_named(where_, type_).tensor);
}

std::unique_ptr<ByteStream> StoredArray::open_elements() const {
  std::unique_ptr<ByteStream> stream = open_();
  std::string header(header_bytes_, '\0');
  stream->read(header.data(), header.size());
  return stream;
}

at::Tensor StoredArray::read_elements(ByteStream& from, const std::vector<int64_t>& shape) const {
  const Type& type = type_named(where_, type_);
  const at::Tensor array = allocate(where_, shape, type.tensor);
  auto* to = static_cast<uint8_t*>(array.data_ptr());
  const auto count = static_cast<size_t>(array.numel());
  if (as_they_are(type, swapped_)) {
    from.read(to, count * type.bytes);
    return array;
  }
  std::vector<uint8_t> some(std::min<size_t>(count, 1 << 16) * type.bytes);
  for (size_t done = 0; done < count;) {
    const size_t now = std::min(count - done, some.size() / type.bytes);
    from.read(some.data(), now * type.bytes);
    convert(where_, type, swapped_, some.data(), now, to + done * array.element_size());
    done += now;
  }
  return array;
}

at::Tensor StoredArray::read_as_stored() const {
  std::vector<int64_t> shape = shape_, axes(shape_.size());
  std::iota(axes.rbegin(), axes.rend(), int64_t{0});
  if (fortran_) std::reverse(shape.begin(), shape.end());
  const std::unique_ptr<ByteStream> stream = open_elements();
  const at::Tensor array = read_elements(*stream, shape);
  stream->finish();
  return fortran_ ? array.permute(axes) : array;
}

at::Tensor StoredArray::read() const {
  const at::Tensor array = read_as_stored();
  if (!array.is_contiguous()) check_memory(where_, bytes(), kRemedy);
  return name_if_out_of_memory(where_, kRemedy, [&] { return array.contiguous(); });
}

void StoredArray::for_each_block(int64_t rows, const std::function<void(const at::Tensor&)>& use) const {
  const at::Tensor all = fortran_ ? read_as_stored() : at::Tensor();
  const std::unique_ptr<ByteStream> stream = fortran_ ? nullptr : open_elements();
  std::vector<int64_t> shape = shape_;
  for (int64_t first = 0; first < shape_[0]; first += rows) {
    shape[0] = std::min(rows, shape_[0] - first);
    use(fortran_ ? all.narrow(0, first, shape[0]).contiguous() : read_elements(*stream, shape));
  }
  if (stream) stream->finish();
}

StoredArray open_npy(const std::string& path) {
  const auto file = std::make_shared<const InputFile>(path);
  return {path, file->size(), [file] { return std::make_unique<FileStream>(file); }};
}

at::Tensor read_npy(const std::string& path) { return open_npy(path).read(); }

void write_npy(const std::string& path, const at::Tensor& array) {
  const at::Tensor plain = on_cpu(array);
  AtomicFile file(path);
  file.write(npy_header(path, plain));
  file.write(bytes_of(plain));
  file.commit();
}

std::string npy_records(const std::vector<RecordField>& fields) {
  const size_t count = fields.at(0).texts.size() + fields.at(0).numbers.size();
  std::vector<size_t> widths;
  std::string types;
  for (const RecordField& field : fields) {
    size_t width = 1;
    for (const std::string& text : field.texts) width = std::max(width, text.size());
    widths.push_back(field.texts.empty() ? sizeof(double) : width);
    types +=
        fmt::format("('{}', '{}'), ", field.name, field.texts.empty() ? "<f8" : fmt::format("|S{}", width));
  }
  std::string file = npy_header("[" + types + "]", {static_cast<int64_t>(count)});
  for (size_t row = 0; row < count; ++row) {
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].texts.empty())
        file.append(reinterpret_cast<const char*>(&fields[i].numbers[row]), sizeof(double));
      else
        file.append(fields[i].texts[row]).append(widths[i] - fields[i].texts[row].size(), '\0');
    }
  }
  return file;
}

std::map<std::string, StoredArray> open_npz(const std::string& path) {
  constexpr std::string_view kEnding = ".npy";
  {
    const InputFile file(path);
    std::string start(std::min<uint64_t>(file.size(), kMagic.size()), '\0');
    file.read_at(0, start.data(), start.size());
    if (start == kMagic)
      throw Error(path, "is a single .npy array", "save the arrays, each with its name, with numpy.savez");
  }
  const ZipFile zip(path);
  std::map<std::string, StoredArray> arrays;
  for (const ZipEntry& entry : zip.entries()) {
    const size_t stem = entry.name.size() - std::min(entry.name.size(), kEnding.size());
    if (entry.name.substr(stem) != kEnding) continue;
    const std::string where = zip.where(entry);
    const StoredArray array(where, entry.size,
                            [zip, entry] { return std::make_unique<ZipStream>(zip, entry); });
    if (!arrays.emplace(entry.name.substr(0, stem), array).second) broken(where, "occurs twice");
  }
  return arrays;
}

std::map<std::string, at::Tensor> read_npz(const std::string& path) {
  std::map<std::string, at::Tensor> arrays;
  for (const auto& [name, array] : open_npz(path)) arrays[name] = array.read();
  return arrays;
}

void write_npz(const std::string& path, const std::map<std::string, at::Tensor>& arrays) {
  ZipWriter zip(path);
  for (const auto& [name, value] : arrays) {
    const at::Tensor array = on_cpu(value);
    zip.add(name + ".npy", {npy_header(path + "[" + name + "]", array), bytes_of(array)});
  }
  zip.commit();
}

std::string numpy_type(const at::Tensor& array) {
  if (const Type* known = find_type(array)) return std::string(known->name);
  switch (array.scalar_type()) {  // types that npy does not support
    case at::kBFloat16:
      return "bfloat16";
    case at::kComplexFloat:
      return "complex64";
    case at::kComplexDouble:
      return "complex128";
    default:
      return "unknown";
  }
}

}  // namespace poem

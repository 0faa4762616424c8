#include "core/npy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/file.h"

namespace poem {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files are written in the machine's byte order");

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;
constexpr uint32_t kLocalSignature = 0x04034b50;  // what a zip begins with, and each file in it

struct TypeName {
  std::string_view code, name;
  at::ScalarType type;
};
constexpr TypeName kTypes[] = {
    {"|b1", "bool", at::kBool},    {"|u1", "uint8", at::kByte},    {"|i1", "int8", at::kChar},
    {"<i2", "int16", at::kShort},  {"<i4", "int32", at::kInt},     {"<i8", "int64", at::kLong},
    {"<f2", "float16", at::kHalf}, {"<f4", "float32", at::kFloat}, {"<f8", "float64", at::kDouble}};

const TypeName* find_type(const at::Tensor& array) {  // none of what npy cannot hold
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const TypeName& known) { return known.type == array.scalar_type(); });
  return found == std::end(kTypes) ? nullptr : found;
}

// A run of bytes that lives as long as `owner`.
struct Bytes {
  const uint8_t* data;
  size_t size;
  std::shared_ptr<const void> owner;
};

Bytes allocate(size_t size) {
  std::shared_ptr<uint8_t[]> memory(new uint8_t[size]);
  return {memory.get(), size, memory};
}

[[noreturn]] void broken(const std::string& where, const std::string& what) {
  throw Error(where, what, "write or download the file again");
}

template <typename Number>
Number load(const uint8_t* from) {
  Number value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

struct Header {
  at::ScalarType type;
  bool fortran;
  std::vector<int64_t> shape;
  size_t offset;  // of the first element
};

// The text that follows 'key': in the header, a Python dictionary.
std::string_view value_of(const std::string& where, std::string_view text, std::string_view key) {
  const size_t at = text.find(fmt::format("'{}'", key));
  const size_t colon = at == text.npos ? at : text.find(':', at);
  const size_t start = colon == text.npos ? colon : text.find_first_not_of(' ', colon + 1);
  if (start == text.npos) broken(where, fmt::format("the npy header has no '{}'", key));
  return text.substr(start);
}

at::ScalarType type_of(const std::string& where, std::string_view text) {
  const size_t end = text.find('\'', 1);
  const std::string_view code =
      text[0] == '\'' && end != text.npos ? text.substr(1, end - 1) : text.substr(0, text.find(']') + 1);
  for (const TypeName& known : kTypes) {
    if (code == known.code ||
        (known.code[0] == '|' && code.size() == 3 && code.substr(1) == known.code.substr(1)))
      return known.type;
  }
  throw Error(where, fmt::format("has elements of type {}", code),
              "save it as little-endian bool, uint8, int8 to int64 or float16 to float64");
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

Header parse_header(const std::string& where, const Bytes& file) {
  if (file.size >= sizeof kLocalSignature && load<uint32_t>(file.data) == kLocalSignature)
    throw Error(where, "is an .npz, an archive of arrays", "save the one array with numpy.save");
  if (file.size < 12 || std::memcmp(file.data, kMagic, kMagicBytes) != 0)
    broken(where, "is not a npy array (its first bytes are not \\x93NUMPY)");
  const int version = file.data[6];
  if (version < 1 || version > 3)
    broken(where, fmt::format("is of npy version {}, known are 1, 2, 3", version));
  const size_t start = version == 1 ? 10 : 12;
  const size_t length = version == 1 ? load<uint16_t>(file.data + 8) : load<uint32_t>(file.data + 8);
  if (file.size - start < length) broken(where, "ends inside its npy header");
  const std::string_view text(reinterpret_cast<const char*>(file.data) + start, length);
  Header header{type_of(where, value_of(where, text, "descr")), false,
                shape_of(where, value_of(where, text, "shape")), start + length};
  header.fortran = value_of(where, text, "fortran_order").substr(0, 4) == "True";
  return header;
}

// The array inside the bytes of a .npy file, without a copy unless its elements are not aligned.
at::Tensor view_npy(const std::string& where, const Bytes& file) {
  const Header header = parse_header(where, file);
  const size_t element = c10::elementSize(header.type);
  const bool empty = std::count(header.shape.begin(), header.shape.end(), 0) > 0;
  const size_t got = file.size - header.offset;
  size_t want = empty ? 0 : element;
  for (const int64_t axis : header.shape) {
    if (want > got) break;  // also keeps the product from overflowing: axis < 2^60, got is a file's size
    if (__builtin_mul_overflow(want, static_cast<size_t>(axis), &want)) want = SIZE_MAX;
  }
  if (got != want)
    broken(where, fmt::format("has {} bytes of elements, its shape ({}) needs {}{}", got,
                              fmt::join(header.shape, ", "), got < want ? "at least " : "", want));
  Bytes elements{file.data + header.offset, got, file.owner};
  if (reinterpret_cast<uintptr_t>(elements.data) % element != 0) {
    elements = allocate(got);
    std::memcpy(const_cast<uint8_t*>(elements.data), file.data + header.offset, got);
  }
  std::vector<int64_t> strides(header.shape.size(), 1);
  const auto rank = static_cast<int64_t>(strides.size());
  if (header.fortran) {
    for (int64_t i = 1; i < rank; ++i)
      strides[i] = strides[i - 1] * std::max<int64_t>(header.shape[i - 1], 1);
  } else {
    for (int64_t i = rank - 2; i >= 0; --i)
      strides[i] = strides[i + 1] * std::max<int64_t>(header.shape[i + 1], 1);
  }
  return at::from_blob(
      const_cast<uint8_t*>(elements.data), header.shape, strides, [owner = elements.owner](void*) {},
      at::TensorOptions(header.type));
}

// The bytes of a .npy file up to its elements.
std::string npy_header(const std::string& where, const at::Tensor& array) {
  const TypeName* known = find_type(array);
  if (known == nullptr) {
    throw Error(where, fmt::format("npy cannot hold elements of type {}", numpy_type(array)),
                "convert to float32 first");
  }
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", known->code,
                                 fmt::join(array.sizes().vec(), ", "), array.dim() == 1 ? "," : "");
  text.append(63 - (10 + text.size()) % 64, ' ');  // elements start at a multiple of 64, after a line feed
  text += '\n';
  const auto length = static_cast<uint16_t>(text.size());
  std::string header(kMagic, kMagicBytes);
  header += '\x01';
  header += '\x00';
  header.append(reinterpret_cast<const char*>(&length), sizeof length);
  return header + text;
}

at::Tensor on_cpu(const at::Tensor& array) { return array.detach().to(at::kCPU).contiguous(); }

// ---- zip ------------------------------------------------------------------------------------------------

constexpr uint32_t kEntrySignature = 0x02014b50, kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                   kLocator64Signature = 0x07064b50;
constexpr uint32_t kInExtra = 0xffffffff;  // the real number stands in the zip64 field

struct Entry {
  std::string name;
  uint16_t flags, method;
  uint32_t crc;
  uint64_t packed, size, offset;  // bytes in the file, bytes unpacked, where the local header is
};

struct Directory {
  uint64_t entries, offset;
};

const uint8_t* need(const std::string& where, const Bytes& file, uint64_t offset, uint64_t bytes) {
  if (offset > file.size || file.size - offset < bytes)
    broken(where, "is truncated: a part of the zip lies beyond its end");
  return file.data + offset;
}

Directory find_directory(const std::string& where, const Bytes& file) {
  constexpr size_t kEndBytes = 22, kCommentBytes = 65535;
  if (file.size < kEndBytes) broken(where, "is too short for a zip file");
  const size_t lowest = file.size - std::min(file.size, kEndBytes + kCommentBytes);
  size_t end = file.size - kEndBytes;
  while (load<uint32_t>(file.data + end) != kEndSignature) {
    if (end == lowest) broken(where, "has no zip directory: it is truncated or not an npz file");
    --end;
  }
  Directory directory{load<uint16_t>(file.data + end + 10), load<uint32_t>(file.data + end + 16)};
  if (directory.entries != 0xffff && directory.offset != kInExtra) return directory;
  if (end < 20 || load<uint32_t>(file.data + end - 20) != kLocator64Signature) return directory;
  const uint8_t* end64 = need(where, file, load<uint64_t>(file.data + end - 20 + 8), 56);
  if (load<uint32_t>(end64) != kEnd64Signature) broken(where, "has a broken zip64 directory");
  return {load<uint64_t>(end64 + 32), load<uint64_t>(end64 + 48)};
}

// Fills in the numbers that the zip64 field holds: in this order, and only those marked as missing.
void apply_zip64(const std::string& where, const uint8_t* extra, size_t bytes, Entry* entry) {
  while (bytes >= 4) {
    const size_t length = load<uint16_t>(extra + 2);
    if (length + 4 > bytes) break;
    if (load<uint16_t>(extra) == 1) {
      const uint8_t *next = extra + 4, *end = next + length;
      for (uint64_t* number : {&entry->size, &entry->packed, &entry->offset}) {
        if (*number != kInExtra) continue;
        if (end - next < 8) broken(where, "has a broken zip64 field");
        *number = load<uint64_t>(next);
        next += 8;
      }
    }
    extra += 4 + length;
    bytes -= 4 + length;
  }
}

std::vector<Entry> list_zip(const std::string& where, const Bytes& file) {
  const Directory directory = find_directory(where, file);
  std::vector<Entry> entries;
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const uint8_t* head = need(where, file, at, 46);
    if (load<uint32_t>(head) != kEntrySignature) broken(where, "has a broken zip directory");
    const size_t name = load<uint16_t>(head + 28), extra = load<uint16_t>(head + 30),
                 comment = load<uint16_t>(head + 32);
    need(where, file, at + 46, name + extra + comment);
    Entry entry{std::string(reinterpret_cast<const char*>(head) + 46, name),
                load<uint16_t>(head + 8),
                load<uint16_t>(head + 10),
                load<uint32_t>(head + 16),
                load<uint32_t>(head + 20),
                load<uint32_t>(head + 24),
                load<uint32_t>(head + 42)};
    apply_zip64(where, head + 46 + name, extra, &entry);
    entries.push_back(std::move(entry));
    at += 46 + name + extra + comment;
  }
  return entries;
}

Bytes inflate_all(const std::string& where, const Bytes& packed, size_t size) {
  // Deflate gains at most 1032 to 1, so a larger claim is a broken size, not a reason to allocate.
  if (size / 1032 > packed.size) broken(where, "claims an impossible size");
  Bytes result = allocate(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw Error(where, "cannot start zlib");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> guard(&stream, inflateEnd);
  constexpr size_t kStep = size_t{1} << 30;  // zlib counts in 32 bits
  auto* out = const_cast<uint8_t*>(result.data);
  size_t in_left = packed.size, out_left = size;
  stream.next_in = const_cast<uint8_t*>(packed.data);
  stream.next_out = out;
  int code = Z_OK;
  while (code == Z_OK) {
    const size_t in = std::min(in_left, kStep), room = std::min(out_left, kStep);
    stream.avail_in = static_cast<uInt>(in);
    stream.avail_out = static_cast<uInt>(room);
    code = inflate(&stream, Z_NO_FLUSH);
    in_left -= in - stream.avail_in;
    out_left -= room - stream.avail_out;
  }
  if (code != Z_STREAM_END || out_left != 0)
    broken(where, "cannot be inflated: its compressed bytes are broken");
  return result;
}

Bytes unpack(const std::string& where, const Bytes& file, const Entry& entry) {
  if (entry.flags & 1) throw Error(where, "is encrypted", "save it without a password");
  const uint8_t* head = need(where, file, entry.offset, 30);
  if (load<uint32_t>(head) != kLocalSignature) broken(where, "has a broken zip header");
  const uint64_t start = entry.offset + 30 + load<uint16_t>(head + 26) + load<uint16_t>(head + 28);
  Bytes content{need(where, file, start, entry.packed), entry.packed, file.owner};
  if (entry.method == 8) {
    content = inflate_all(where, content, entry.size);
  } else if (entry.method != 0) {
    throw Error(where, fmt::format("is compressed by zip method {}", entry.method),
                "save it with numpy.savez or savez_compressed");
  }
  if (content.size != entry.size || crc32_z(0, content.data, content.size) != entry.crc)
    broken(where, "does not match its checksum");
  return content;
}

template <typename Number>
void put(std::string* to, Number value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// What a local header and a directory entry have in common. All numbers stand in zip64 fields, so that there
// is one way to write whatever the size.
void put_common(std::string* to, uint32_t crc, const std::string& name, uint16_t extra) {
  put<uint16_t>(to, 45);  // zip64
  put<uint16_t>(to, 0);   // no flags
  put<uint16_t>(to, 0);   // stored
  put<uint16_t>(to, 0);   // 00:00
  put<uint16_t>(to, 33);  // 1 January 1980: the same arrays give the same bytes
  put<uint32_t>(to, crc);
  put<uint32_t>(to, kInExtra);
  put<uint32_t>(to, kInExtra);
  put<uint16_t>(to, static_cast<uint16_t>(name.size()));
  put<uint16_t>(to, extra);
}

void put_zip64(std::string* to, std::initializer_list<uint64_t> numbers) {
  put<uint16_t>(to, 1);
  put<uint16_t>(to, static_cast<uint16_t>(8 * numbers.size()));
  for (const uint64_t number : numbers) put<uint64_t>(to, number);
}

std::string end_of_zip(uint64_t entries, uint64_t offset, uint64_t bytes) {
  std::string end;
  put<uint32_t>(&end, kEnd64Signature);
  put<uint64_t>(&end, 44);
  put<uint16_t>(&end, 45);
  put<uint16_t>(&end, 45);
  put<uint64_t>(&end, 0);  // disk numbers
  put<uint64_t>(&end, entries);
  put<uint64_t>(&end, entries);
  put<uint64_t>(&end, bytes);
  put<uint64_t>(&end, offset);
  put<uint32_t>(&end, kLocator64Signature);
  put<uint32_t>(&end, 0);
  put<uint64_t>(&end, offset + bytes);
  put<uint32_t>(&end, 1);
  put<uint32_t>(&end, kEndSignature);
  put<uint32_t>(&end, 0);
  put<uint32_t>(&end, 0xffffffff);  // both counts: see zip64
  put<uint32_t>(&end, kInExtra);
  put<uint32_t>(&end, kInExtra);
  put<uint16_t>(&end, 0);
  return end;
}

}  // namespace

std::string numpy_type(const at::Tensor& array) {
  const TypeName* known = find_type(array);
  return known ? std::string(known->name) : c10::toString(array.scalar_type());
}

at::Tensor map_npy(const std::string& path) {
  const MappedFile file(path);
  return view_npy(path, {file.data(), file.size(), file.keep_alive()});
}

at::Tensor read_npy(const std::string& path) { return map_npy(path).clone(at::MemoryFormat::Contiguous); }

void write_npy(const std::string& path, const at::Tensor& array) {
  const at::Tensor plain = on_cpu(array);
  AtomicFile file(path);
  file.write(npy_header(path, plain));
  file.write(plain.data_ptr(), plain.nbytes());
  file.commit();
}

std::map<std::string, at::Tensor> read_npz(const std::string& path) {
  const MappedFile mapped(path);
  const Bytes file{mapped.data(), mapped.size(), mapped.keep_alive()};
  if (file.size >= kMagicBytes && std::memcmp(file.data, kMagic, kMagicBytes) == 0)
    throw Error(path, "is a single .npy array", "save the arrays, each with its name, with numpy.savez");
  std::map<std::string, at::Tensor> arrays;
  for (const Entry& entry : list_zip(path, file)) {
    const size_t stem = entry.name.size() - std::min<size_t>(entry.name.size(), 4);
    if (entry.name.substr(stem) != ".npy") continue;
    const std::string where = path + "[" + entry.name + "]";
    at::Tensor array = view_npy(where, unpack(where, file, entry));
    // A stored array is still a view of the file: copy it, as what is returned may be written to.
    if (entry.method == 0 || !array.is_contiguous()) array = array.clone(at::MemoryFormat::Contiguous);
    arrays[entry.name.substr(0, stem)] = array;
  }
  return arrays;
}

void write_npz(const std::string& path, const std::map<std::string, at::Tensor>& arrays) {
  AtomicFile file(path);
  std::string directory;
  for (const auto& [key, value] : arrays) {
    const at::Tensor array = on_cpu(value);
    const std::string name = key + ".npy", header = npy_header(path + "[" + key + "]", array);
    const uint64_t bytes = header.size() + array.nbytes(), offset = file.size();
    const uLong head_crc = crc32_z(0, reinterpret_cast<const uint8_t*>(header.data()), header.size());
    const auto crc = static_cast<uint32_t>(
        array.nbytes() == 0
            ? head_crc
            : crc32_z(head_crc, static_cast<const uint8_t*>(array.data_ptr()), array.nbytes()));
    std::string local;
    put<uint32_t>(&local, kLocalSignature);
    put_common(&local, crc, name, 20);
    local += name;
    put_zip64(&local, {bytes, bytes});
    file.write(local);
    file.write(header);
    file.write(array.data_ptr(), array.nbytes());

    put<uint32_t>(&directory, kEntrySignature);
    put<uint16_t>(&directory, 45);
    put_common(&directory, crc, name, 28);
    put<uint16_t>(&directory, 0);  // comment
    put<uint64_t>(&directory, 0);  // disk, attributes
    put<uint32_t>(&directory, kInExtra);
    directory += name;
    put_zip64(&directory, {bytes, bytes, offset});
  }
  const uint64_t offset = file.size();
  file.write(directory);
  file.write(end_of_zip(arrays.size(), offset, directory.size()));
  file.commit();
}

}  // namespace poem

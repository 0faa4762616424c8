#include "readers/packed.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/json_text.h"
#include "core/output_files.h"
#include "poem/error.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

constexpr char kMagic[8] = {'P', 'O', 'E', 'M', 'P', 'A', 'C', 'K'};
constexpr uint32_t kVersion = 2;
constexpr uint64_t kPixelsOffset = 4096;  // a page: mappings start at multiples of it

struct Header {
  char magic[8];
  uint32_t version, channels, height, width;
  uint64_t count;
  uint64_t labels_offset;  // 0: no labels
  uint64_t class_names_offset, class_names_bytes;
  uint64_t image_names_bytes;  // 0: no names; version 1 has none
};
static_assert(sizeof(Header) == 64, "the layout of the file");

[[noreturn]] void broken(const std::string& path, const std::string& what) {
  throw Error(path, what, "pack the source again");
}

// The sizes in the header must add up to the size of the file.
void check_header(const std::string& path, const Header& header, uint64_t file_bytes) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) broken(path, "is not a packed file of poem");
  if (header.version == 0 || header.version > kVersion)
    broken(path, fmt::format("is a packed file of version {}, but this poem reads versions 1 to {}",
                             header.version, kVersion));
  uint64_t pixels = header.count;
  bool overflow = false;
  for (const uint64_t axis : {header.channels, header.height, header.width})
    overflow |= __builtin_mul_overflow(pixels, axis, &pixels);
  if (overflow || pixels == 0 || pixels > file_bytes) broken(path, "is truncated, or its header is damaged");
  const uint64_t labels = kPixelsOffset + (pixels + 7) / 8 * 8;
  const uint64_t names = header.labels_offset == 0 ? kPixelsOffset + pixels : labels + 8 * header.count;
  if ((header.labels_offset != 0 && header.labels_offset != labels) || header.class_names_offset != names)
    broken(path, "has a damaged header");
  uint64_t bytes = names;
  overflow |= __builtin_add_overflow(bytes, header.class_names_bytes, &bytes);
  overflow |= __builtin_add_overflow(bytes, header.image_names_bytes, &bytes);
  if (overflow) broken(path, "has a damaged header");
  if (file_bytes != bytes)
    broken(path, fmt::format("has {} bytes, but its header says {}", file_bytes, bytes));
}

std::vector<std::string> parse_class_names(const std::string& path, const char* text, uint64_t bytes) {
  try {
    return nlohmann::json::parse(text, text + bytes).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    broken(path, "has damaged class names");
  }
}

// Each name ends in a zero byte, which file names cannot contain.
ImageNames parse_image_names(const std::string& path, std::string_view text, int64_t count) {
  ImageNames names;
  while (!text.empty()) {
    const size_t end = text.find('\0');
    if (end == text.npos) broken(path, "has damaged names of images");
    names.add(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (!names.empty() && names.size() != count)
    broken(path, fmt::format("has {} names for {} images", names.size(), count));
  return names;
}

}  // namespace

PackedWriter::PackedWriter(const std::string& path) : file_(path) {
  file_.write(std::string(kPixelsOffset, '\0'));  // the header comes last, when the count is known
}

void PackedWriter::add(const at::Tensor& pixels) {
  shape_ = {pixels.size(1), pixels.size(2), pixels.size(3)};
  count_ += pixels.size(0);
  file_.write(pixels.data_ptr(), pixels.nbytes());
}

int64_t PackedWriter::finish(const Labels& labels) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = labels.names.empty() ? 1 : kVersion;
  header.channels = static_cast<uint32_t>(shape_[0]);
  header.height = static_cast<uint32_t>(shape_[1]);
  header.width = static_cast<uint32_t>(shape_[2]);
  header.count = static_cast<uint64_t>(count_);
  if (labels.labels.defined()) {
    file_.write(std::string((8 - file_.size() % 8) % 8, '\0'));
    header.labels_offset = file_.size();
    const at::Tensor plain = labels.labels.contiguous();
    file_.write(plain.data_ptr<int64_t>(), plain.nbytes());
  }
  // Folder names may be any bytes; JSON is UTF-8.
  const std::string class_names = json_text(nlohmann::json(labels.class_names));
  header.class_names_offset = file_.size();
  header.class_names_bytes = class_names.size();
  file_.write(class_names);
  std::string image_names;
  for (int64_t i = 0; i < labels.names.size(); ++i) image_names.append(labels.names[i]).push_back('\0');
  header.image_names_bytes = image_names.size();
  file_.write(image_names);
  file_.write_at(0, &header, sizeof header);
  file_.commit();
  return count_;
}

ImageSet map_packed(const std::string& path) {
  const MappedFile file(path);
  if (file.size() < kPixelsOffset) broken(path, "is too short for a packed file");
  Header header;
  std::memcpy(&header, file.data(), sizeof header);
  check_header(path, header, file.size());
  auto* start = const_cast<uint8_t*>(file.data());
  const auto count = static_cast<int64_t>(header.count);
  ImageSet set;
  set.name = path;
  set.pixels = at::from_blob(
      start + kPixelsOffset, {count, header.channels, header.height, header.width},
      [keep = file.keep_alive()](void*) {}, at::kByte);
  const char* text = reinterpret_cast<char*>(start) + header.class_names_offset;
  set.class_names = parse_class_names(path, text, header.class_names_bytes);
  set.names = parse_image_names(path, {text + header.class_names_bytes, header.image_names_bytes}, count);
  if (header.labels_offset != 0) {
    set.labels = at::from_blob(start + header.labels_offset, {count}, at::kLong).clone();
    check_labels(path, set.labels, 0, static_cast<int64_t>(set.class_names.size()) - 1);
  }
  return set;
}

bool is_packed(const std::string& path) { return has_extension(path, ".poem"); }

void check_packed_output(const std::string& path, bool force) {
  check_output_file(path, force);
  if (!std::filesystem::exists(path)) return;
  char start[sizeof kMagic] = {};  // only the first bytes are checked: a damaged file may be replaced too
  std::ifstream(path, std::ios::binary).read(start, sizeof start);
  if (std::memcmp(start, kMagic, sizeof kMagic) != 0)
    throw Error(path, "exists and is not a packed file of poem, so it is never replaced",
                "choose another name");
}

extern const Reader packed_reader = {".poem packed file", is_packed, nullptr, map_packed};

}  // namespace poem

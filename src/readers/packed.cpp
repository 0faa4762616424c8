#include "readers/packed.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "core/interrupts.h"
#include "core/json_text.h"
#include "core/mapped_file.h"
#include "core/output_files.h"
#include "core/progress.h"
#include "poem/error.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

constexpr char kMagic[8] = {'P', 'O', 'E', 'M', 'P', 'A', 'C', 'K'};
constexpr uint32_t kVersion = 3;
constexpr uint64_t kPixelsOffset = kPageBytes;  // mappings start at multiples of it

struct Header {
  char magic[8];
  uint32_t version, channels, height, width;
  uint64_t count;
  uint64_t labels_offset;  // 0: no labels
  uint64_t class_names_offset, class_names_bytes;
  uint64_t image_names_bytes;  // 0: no names; version 1 has none
  // Version 3. A block has so many bytes; the first begins with the pixels, the last ends with the names.
  uint64_t checksums_offset;
  uint32_t block_bytes;
  uint32_t table_checksum;   // of all checksums
  uint32_t header_checksum;  // of the fields before it
  uint32_t unused;

  uint64_t image_bytes() const { return uint64_t{channels} * height * width; }
  uint64_t pixel_bytes() const { return count * image_bytes(); }
  uint64_t end_of_names() const { return class_names_offset + class_names_bytes + image_names_bytes; }
  uint64_t blocks() const { return (end_of_names() - kPixelsOffset + block_bytes - 1) / block_bytes; }
};
static_assert(sizeof(Header) == 88, "the layout of the file");

uint32_t crc(const void* data, size_t bytes, uint32_t before = 0) {
  return static_cast<uint32_t>(::crc32_z(before, static_cast<const Bytef*>(data), bytes));
}

uint32_t checksum_of(const Header& header) { return crc(&header, offsetof(Header, header_checksum)); }

[[noreturn]] void broken(const std::string& path, const std::string& what) {
  throw Error(path, what, "pack the source again");
}

// The sizes in the header must add up to the size of the file.
void check_header(const std::string& path, const Header& header, uint64_t file_bytes) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) broken(path, "is not a packed file of poem");
  if (header.version == 0 || header.version > kVersion)
    broken(path, fmt::format("is a packed file of version {}, but this poem reads versions 1 to {}",
                             header.version, kVersion));
  const bool checksums = header.version >= 3;
  if (checksums && (header.header_checksum != checksum_of(header) || header.block_bytes == 0))
    broken(path, "has a damaged header");
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
  if (overflow || (checksums && header.checksums_offset != bytes)) broken(path, "has a damaged header");
  if (checksums) bytes += sizeof(uint32_t) * header.blocks();
  if (file_bytes != bytes)
    broken(path, fmt::format("has {} bytes, but its header says {}", file_bytes, bytes));
}

Header read_header(const InputFile& file) {
  if (file.size() == 0) throw Error(file.path(), "is empty", "pack the source again");
  if (file.size() < kPixelsOffset) broken(file.path(), "is too short for a packed file");
  Header header;
  file.read_at(0, &header, sizeof header);
  check_header(file.path(), header, file.size());
  return header;
}

std::string read_text(const InputFile& file, uint64_t offset, uint64_t bytes) {
  std::string text(bytes, '\0');
  file.read_at(offset, text.data(), bytes);
  return text;
}

std::vector<std::string> parse_class_names(const std::string& path, const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception&) {
    broken(path, "has damaged class names");
  }
}

// Each name ends in a zero byte, which file names cannot contain.
void add_image_names(const std::string& path, std::string_view text, int64_t count, ImageNames& names) {
  const int64_t before = names.size();
  while (!text.empty()) {
    const size_t end = text.find('\0');
    if (end == text.npos) broken(path, "has damaged names of images");
    names.add(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  if (names.size() - before != count)
    broken(path, fmt::format("has {} names for {} images", names.size() - before, count));
}

// What a block has parts of.
PackedCheck::Damage damage_in(const Header& header, int64_t block) {
  const uint64_t first = static_cast<uint64_t>(block) * header.block_bytes,
                 last = first + header.block_bytes - 1;
  PackedCheck::Damage damage{block, 0, -1, last >= header.pixel_bytes()};
  if (first < header.pixel_bytes()) {
    damage.first_image = static_cast<int64_t>(first / header.image_bytes());
    damage.last_image = static_cast<int64_t>(std::min(last, header.pixel_bytes() - 1) / header.image_bytes());
  }
  return damage;
}

// Collects several packed files as one set.
class Joining {
 public:
  void add(const std::string& path) {
    const InputFile file(path);
    const Header header = read_header(file);
    if (pieces_.empty()) {
      first_ = path;
      shape_ = header;
    }
    check_fits(path, header);
    add_pixels(path, header);
    const std::string text =
        read_text(file, header.class_names_offset, header.class_names_bytes + header.image_names_bytes);
    add_labels(file, header, parse_class_names(path, text.substr(0, header.class_names_bytes)));
    all_named_ &= header.image_names_bytes > 0;
    if (all_named_)
      add_image_names(path, std::string_view(text).substr(header.class_names_bytes),
                      static_cast<int64_t>(header.count), set_.names);
    else
      set_.names = {};
  }

  ImageSet finish() {
    const MappedFile file(pieces_);
    set_.name = first_;
    set_.pixels = at::from_blob(
        const_cast<uint8_t*>(file.data()),
        {static_cast<int64_t>(rows_), shape_.channels, shape_.height, shape_.width},
        [keep = file.keep_alive()](void*) {}, at::kByte);
    if (!labels_.empty()) set_.labels = labels_.size() == 1 ? labels_[0] : at::cat(labels_);
    return std::move(set_);
  }

 private:
  void check_fits(const std::string& path, const Header& header) const {
    if (header.channels != shape_.channels || header.height != shape_.height || header.width != shape_.width)
      throw Error(
          path,
          fmt::format("has images of {}×{}×{}, but those of {} are {}×{}×{}", header.channels, header.height,
                      header.width, first_, shape_.channels, shape_.height, shape_.width),
          "pack all with the same option size");
    if ((header.labels_offset != 0) != (shape_.labels_offset != 0))
      throw Error(path,
                  fmt::format("has {}, but {} has {}", header.labels_offset != 0 ? "labels" : "no labels",
                              first_, shape_.labels_offset != 0 ? "some" : "none"),
                  "name files that all have labels, or none");
  }

  // A file's pixels begin at a page, and at a row of the whole. Rows before that mean nothing.
  void add_pixels(const std::string& path, const Header& header) {
    const uint64_t bytes = header.image_bytes(), step = kPageBytes / std::gcd(kPageBytes, bytes);
    for (; rows_ % step != 0; ++rows_) set_.left_out.push_back(static_cast<int64_t>(rows_));
    pieces_.push_back({path, kPixelsOffset, header.pixel_bytes(), rows_ * bytes});
    rows_ += header.count;
  }

  // Classes with one name are one class.
  void add_labels(const InputFile& file, const Header& header, const std::vector<std::string>& class_names) {
    std::vector<int64_t> classes;  // of the whole, by class of the file
    for (const std::string& name : class_names) {
      const auto [entry, is_new] = classes_.emplace(name, static_cast<int64_t>(classes_.size()));
      if (is_new) set_.class_names.push_back(name);
      classes.push_back(entry->second);
    }
    if (header.labels_offset == 0) return;
    at::Tensor labels = at::empty({static_cast<int64_t>(header.count)}, at::kLong);
    file.read_at(header.labels_offset, labels.data_ptr<int64_t>(), labels.nbytes());
    check_labels(file.path(), labels, 0, static_cast<int64_t>(class_names.size()) - 1);
    auto* label = labels.data_ptr<int64_t>();
    for (uint64_t i = 0; i < header.count; ++i) label[i] = classes[static_cast<size_t>(label[i])];
    labels_.push_back(labels);
  }

  ImageSet set_;
  std::string first_;
  Header shape_ = {};
  std::vector<FilePiece> pieces_;
  uint64_t rows_ = 0;
  std::map<std::string, int64_t> classes_;
  std::vector<at::Tensor> labels_;
  bool all_named_ = true;
};

}  // namespace

void BlockChecksums::add(const void* data, size_t bytes) {
  const auto* next = static_cast<const uint8_t*>(data);
  while (bytes > 0) {
    const size_t some = std::min<size_t>(bytes, kBlockBytes - filled_);
    current_ = crc(next, some, current_);
    filled_ += some;
    next += some;
    bytes -= some;
    if (filled_ == kBlockBytes) finish();
  }
}

std::vector<uint32_t> BlockChecksums::finish() {
  if (filled_ > 0) done_.push_back(std::exchange(current_, 0));
  filled_ = 0;
  return done_;
}

// Packing may take hours, so nobody waits for another process that does it.
PackedWriter::PackedWriter(const std::string& path) : file_(path, /*patience=*/0) {
  file_.write(std::string(kPixelsOffset, '\0'));  // the header comes last, when the count is known
}

void PackedWriter::put(const void* data, size_t bytes) {
  checksums_.add(data, bytes);
  file_.write(data, bytes);
}

void PackedWriter::add(const at::Tensor& pixels) {
  shape_ = {pixels.size(1), pixels.size(2), pixels.size(3)};
  count_ += pixels.size(0);
  put(pixels.data_ptr(), pixels.nbytes());
}

int64_t PackedWriter::finish(const Labels& labels) {
  complete(labels);
  commit();
  return count_;
}

void PackedWriter::complete(const Labels& labels) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.channels = static_cast<uint32_t>(shape_[0]);
  header.height = static_cast<uint32_t>(shape_[1]);
  header.width = static_cast<uint32_t>(shape_[2]);
  header.count = static_cast<uint64_t>(count_);
  if (labels.labels.defined()) {
    const std::string gap((8 - file_.size() % 8) % 8, '\0');
    put(gap.data(), gap.size());
    header.labels_offset = file_.size();
    const at::Tensor plain = labels.labels.contiguous();
    put(plain.data_ptr<int64_t>(), plain.nbytes());
  }
  // Folder names may be any bytes; JSON is UTF-8.
  const std::string class_names = json_text(nlohmann::json(labels.class_names));
  const auto kept = nlohmann::json::parse(class_names).get<std::set<std::string>>();
  if (kept.size() < labels.class_names.size())
    throw Error("class names", "two of them would become one, because names of folders are not UTF-8",
                "rename these folders");
  header.class_names_offset = file_.size();
  header.class_names_bytes = class_names.size();
  put(class_names.data(), class_names.size());
  std::string image_names;
  for (int64_t i = 0; i < labels.names.size(); ++i) image_names.append(labels.names[i]).push_back('\0');
  header.image_names_bytes = image_names.size();
  put(image_names.data(), image_names.size());
  const std::vector<uint32_t> checksums = checksums_.finish();
  header.checksums_offset = file_.size();
  header.block_bytes = BlockChecksums::kBlockBytes;
  header.table_checksum = crc(checksums.data(), sizeof(uint32_t) * checksums.size());
  header.header_checksum = checksum_ = checksum_of(header);
  file_.write(checksums.data(), sizeof(uint32_t) * checksums.size());
  file_.write_at(0, &header, sizeof header);
}

PackedOutline outline_packed(const std::string& path) {
  const Header header = read_header(InputFile(path));
  return {static_cast<int64_t>(header.count),
          {header.channels, header.height, header.width},
          header.version >= 3 ? header.header_checksum : 0,
          header.labels_offset != 0,
          header.image_names_bytes > 0};
}

ImageSet map_packed(const std::vector<std::string>& paths) {
  Joining all;
  for (const std::string& path : paths) all.add(path);
  return all.finish();
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

std::string PackedCheck::verdict() const {
  std::vector<std::string> texts;
  for (const Damage& part : damage) {
    texts.push_back(fmt::format("block {}", part.block));
    if (part.first_image <= part.last_image)
      texts.back() += fmt::format(", images {} to {}", part.first_image, part.last_image);
    if (part.tables) texts.back() += ", labels or names";
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

void refuse_damage(const std::string& path) {
  if (const std::string verdict = check_packed(path).verdict(); !verdict.empty())
    throw Error(path, "is damaged: " + verdict, "copy it again, or pack its source again");
}

PackedCheck check_packed(const std::string& path) {
  const InputFile file(path);
  const Header header = read_header(file);
  PackedCheck result;
  result.count = static_cast<int64_t>(header.count);
  result.has_checksums = header.version >= 3;
  if (!result.has_checksums) return result;
  result.blocks = static_cast<int64_t>(header.blocks());
  std::vector<uint32_t> expected(header.blocks());
  file.read_at(header.checksums_offset, expected.data(), sizeof(uint32_t) * expected.size());
  if (crc(expected.data(), sizeof(uint32_t) * expected.size()) != header.table_checksum)
    broken(path, "has damaged checksums");
  const auto damaged = [&](int64_t block) {
    const uint64_t first = kPixelsOffset + static_cast<uint64_t>(block) * header.block_bytes;
    std::string bytes =
        read_text(file, first, std::min<uint64_t>(header.block_bytes, header.end_of_names() - first));
    return crc(bytes.data(), bytes.size()) != expected[static_cast<size_t>(block)];
  };
  Progress bar("checking " + path, result.blocks, "MiB");
  constexpr int64_t kAtOnce = 64;
  for (int64_t first = 0; first < result.blocks; first += kAtOnce) {
    stop_if_interrupted();
    const int64_t count = std::min(kAtOnce, result.blocks - first);
    std::vector<char> bad(static_cast<size_t>(count));
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) bad[static_cast<size_t>(i)] = damaged(first + i);
    });
    for (int64_t i = 0; i < count; ++i)
      if (bad[static_cast<size_t>(i)]) result.damage.push_back(damage_in(header, first + i));
    bar.advance(count);
  }
  return result;
}

}  // namespace poem

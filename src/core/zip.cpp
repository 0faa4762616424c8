#include "core/zip.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "poem/error.h"

namespace poem {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the numbers of a zip are in the machine's order");

constexpr uint32_t kLocalSignature = 0x04034b50, kEntrySignature = 0x02014b50, kEndSignature = 0x06054b50,
                   kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50;
constexpr uint32_t kInExtra = 0xffffffff;  // the real number stands in the zip64 field
constexpr uint16_t kStored = 0, kDeflated = 8;

[[noreturn]] void broken(const std::string& where, const std::string& what) {
  throw Error(where, what, "write or download the file again");
}

template <typename Number>
Number load(const char* from) {
  Number value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

std::string read_part(const InputFile& file, uint64_t offset, uint64_t bytes) {
  if (offset > file.size() || file.size() - offset < bytes)
    broken(file.path(), "is truncated: a part of the zip lies beyond its end");
  std::string part(bytes, '\0');
  file.read_at(offset, part.data(), bytes);
  return part;
}

// ---- reading --------------------------------------------------------------------------------------------

struct Directory {
  uint64_t entries, offset;
};

Directory find_directory(const InputFile& file) {
  constexpr uint64_t kEndBytes = 22, kCommentBytes = 65535, kLocatorBytes = 20;
  if (file.size() == 0) broken(file.path(), "is empty");
  if (file.size() < kEndBytes) broken(file.path(), "is too short for a zip file");
  const uint64_t start = file.size() - std::min(file.size(), kLocatorBytes + kEndBytes + kCommentBytes);
  const std::string tail = read_part(file, start, file.size() - start);
  size_t end = tail.size() - kEndBytes;
  while (load<uint32_t>(tail.data() + end) != kEndSignature) {
    if (end == 0) broken(file.path(), "has no zip directory: it is truncated or not a zip file");
    --end;
  }
  const Directory directory{load<uint16_t>(tail.data() + end + 10), load<uint32_t>(tail.data() + end + 16)};
  if (directory.entries != 0xffff && directory.offset != kInExtra) return directory;
  if (end < kLocatorBytes) return directory;
  const char* locator = tail.data() + end - kLocatorBytes;
  if (load<uint32_t>(locator) != kLocator64Signature) return directory;
  const std::string end64 = read_part(file, load<uint64_t>(locator + 8), 56);
  if (load<uint32_t>(end64.data()) != kEnd64Signature) broken(file.path(), "has a broken zip64 directory");
  return {load<uint64_t>(end64.data() + 32), load<uint64_t>(end64.data() + 48)};
}

// Fills in the numbers that the zip64 field holds: in this order, and only those marked as missing.
void apply_zip64(const std::string& where, const char* extra, size_t bytes, ZipEntry* entry) {
  while (bytes >= 4) {
    const size_t length = load<uint16_t>(extra + 2);
    if (length + 4 > bytes) break;
    if (load<uint16_t>(extra) == 1) {
      const char *next = extra + 4, *end = next + length;
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

// Sizes that cannot be: whoever believed them would wait for bytes that never come.
void check_entry(const std::string& where, const ZipEntry& entry) {
  constexpr uint64_t kMostGain = 1032;  // of deflate
  if (entry.flags & 1) throw Error(where, "is encrypted", "save it without a password");
  if (entry.method != kStored && entry.method != kDeflated) {
    throw Error(where, fmt::format("is compressed by zip method {}", entry.method),
                "save it again, without this compression");
  }
  if (entry.method == kStored ? entry.size != entry.packed : entry.size / kMostGain > entry.packed)
    broken(where, "claims an impossible size");
}

}  // namespace

ZipFile::ZipFile(const std::string& path) : file_(std::make_shared<const InputFile>(path)) {
  constexpr uint64_t kHeadBytes = 46;
  const Directory directory = find_directory(*file_);
  uint64_t at = directory.offset;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const std::string head = read_part(*file_, at, kHeadBytes);
    if (load<uint32_t>(head.data()) != kEntrySignature) broken(path, "has a broken zip directory");
    const size_t name = load<uint16_t>(head.data() + 28), extra = load<uint16_t>(head.data() + 30),
                 comment = load<uint16_t>(head.data() + 32);
    const std::string rest = read_part(*file_, at + kHeadBytes, name + extra);
    ZipEntry entry{rest.substr(0, name),
                   load<uint16_t>(head.data() + 8),
                   load<uint16_t>(head.data() + 10),
                   load<uint32_t>(head.data() + 16),
                   load<uint32_t>(head.data() + 20),
                   load<uint32_t>(head.data() + 24),
                   load<uint32_t>(head.data() + 42)};
    apply_zip64(path, rest.data() + name, extra, &entry);
    entries_.push_back(std::move(entry));
    at += kHeadBytes + name + extra + comment;
  }
}

ZipStream::ZipStream(const ZipFile& zip, const ZipEntry& entry)
    : file_(zip.file_), entry_(entry), where_(zip.where(entry)), left_(entry.size) {
  check_entry(where_, entry);
  const std::string head = read_part(*file_, entry.offset, 30);
  if (load<uint32_t>(head.data()) != kLocalSignature) broken(where_, "has a broken zip header");
  next_ = entry.offset + head.size() + load<uint16_t>(head.data() + 26) + load<uint16_t>(head.data() + 28);
  packed_left_ = entry.packed;
  if (next_ > file_->size() || file_->size() - next_ < packed_left_)
    broken(where_, "is truncated: a part of the zip lies beyond its end");
  if (entry.method == kDeflated && inflateInit2(&inflater_, -MAX_WBITS) != Z_OK)
    throw Error(where_, "cannot start zlib");
}

ZipStream::~ZipStream() {
  if (entry_.method == kDeflated) inflateEnd(&inflater_);
}

void ZipStream::refill() {
  constexpr size_t kBufferBytes = 1 << 18;
  buffer_.resize(std::min<uint64_t>(kBufferBytes, packed_left_));
  file_->read_at(next_, buffer_.data(), buffer_.size());
  next_ += buffer_.size();
  packed_left_ -= buffer_.size();
  inflater_.next_in = buffer_.data();
  inflater_.avail_in = static_cast<uInt>(buffer_.size());
}

// At most so many bytes; 0 at the end of the compressed ones.
size_t ZipStream::inflate_some(uint8_t* to, size_t bytes) {
  constexpr size_t kStep = size_t{1} << 30;  // zlib counts in 32 bits
  const size_t room = std::min(bytes, kStep);
  inflater_.next_out = to;
  inflater_.avail_out = static_cast<uInt>(room);
  int code = Z_OK;
  while (code == Z_OK && inflater_.avail_out == room) {
    if (inflater_.avail_in == 0 && packed_left_ > 0) refill();
    code = inflate(&inflater_, Z_NO_FLUSH);
  }
  if (code != Z_OK && code != Z_STREAM_END)
    broken(where_, "cannot be inflated: its compressed bytes are broken");
  return room - inflater_.avail_out;
}

void ZipStream::read(void* to, size_t bytes) {
  if (bytes > left_) broken(where_, "holds less than it should");
  left_ -= bytes;
  auto* next = static_cast<uint8_t*>(to);
  while (bytes > 0) {
    size_t got = bytes;
    if (entry_.method == kDeflated) {
      got = inflate_some(next, bytes);
      if (got == 0) broken(where_, "cannot be inflated: its compressed bytes end early");
    } else {
      file_->read_at(next_, next, bytes);
      next_ += bytes;
    }
    crc_ = static_cast<uint32_t>(crc32_z(crc_, next, got));
    next += got;
    bytes -= got;
  }
}

void ZipStream::finish() {
  uint8_t more;
  if (entry_.method == kDeflated && inflate_some(&more, 1) != 0) broken(where_, "holds more than it should");
  if (left_ != 0 || crc_ != entry_.crc) broken(where_, "does not match its checksum");
}

// ---- writing --------------------------------------------------------------------------------------------

namespace {

template <typename Number>
void put(std::string* to, Number value) {
  to->append(reinterpret_cast<const char*>(&value), sizeof value);
}

// What a local header and a directory entry have in common. All numbers stand in zip64 fields, so that there
// is one form for files of any size.
void put_common(std::string* to, uint32_t crc, const std::string& name, uint16_t extra) {
  put<uint16_t>(to, 45);  // zip64
  put<uint16_t>(to, 0);   // no flags
  put<uint16_t>(to, kStored);
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

void ZipWriter::add(const std::string& name, std::initializer_list<std::string_view> parts) {
  uint64_t bytes = 0;
  uLong crc = 0;
  for (const std::string_view part : parts) {
    bytes += part.size();
    // zlib takes no bytes at no address for a question.
    if (!part.empty()) crc = crc32_z(crc, reinterpret_cast<const uint8_t*>(part.data()), part.size());
  }
  const uint64_t offset = file_.size();
  std::string local;
  put<uint32_t>(&local, kLocalSignature);
  put_common(&local, static_cast<uint32_t>(crc), name, 20);
  local += name;
  put_zip64(&local, {bytes, bytes});
  file_.write(local);
  for (const std::string_view part : parts) file_.write(part);

  put<uint32_t>(&directory_, kEntrySignature);
  put<uint16_t>(&directory_, 45);
  put_common(&directory_, static_cast<uint32_t>(crc), name, 28);
  put<uint16_t>(&directory_, 0);  // comment
  put<uint64_t>(&directory_, 0);  // disk, attributes
  put<uint32_t>(&directory_, kInExtra);
  directory_ += name;
  put_zip64(&directory_, {bytes, bytes, offset});
  ++entries_;
}

void ZipWriter::commit() {
  const uint64_t offset = file_.size();
  file_.write(directory_);
  file_.write(end_of_zip(entries_, offset, directory_.size()));
  file_.commit();
}

}  // namespace poem

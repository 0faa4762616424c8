// The zip container of .npz files and of PyTorch's state dicts: stored and deflated entries of any size, read
// as streams and written. It is not left to libarchive, which does archives of images: that library is
// optional in a build, .npz is not.
//
//   const ZipFile zip("batch.npz");
//   for (const ZipEntry& entry : zip.entries()) {
//     ZipStream stream(zip, entry);
//     stream.read(buffer, entry.size);
//     stream.finish();
//   }
#pragma once
#include <zlib.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"

namespace poem {

struct ZipEntry {
  std::string name;
  uint16_t flags, method;
  uint32_t crc;
  uint64_t packed, size, offset;  // bytes in the file, bytes unpacked, where the local header is
};

// The directory of a zip file. Copies share the open file.
class ZipFile {
 public:
  explicit ZipFile(const std::string& path);  // a file that is no zip, or a truncated one, is an Error
  const std::vector<ZipEntry>& entries() const { return entries_; }
  std::string where(const ZipEntry& entry) const { return file_->path() + "[" + entry.name + "]"; }

 private:
  friend class ZipStream;
  std::shared_ptr<const InputFile> file_;
  std::vector<ZipEntry> entries_;
};

// What one entry holds, from its beginning to its end; a small buffer is all that lies in memory.
class ZipStream : public ByteStream {
 public:
  ZipStream(const ZipFile& zip, const ZipEntry& entry);
  ~ZipStream() override;
  ZipStream(const ZipStream&) = delete;
  ZipStream& operator=(const ZipStream&) = delete;

  void read(void* to, size_t bytes) override;
  void finish() override;  // compares the checksum

 private:
  size_t inflate_some(uint8_t* to, size_t bytes);
  void refill();

  const std::shared_ptr<const InputFile> file_;
  const ZipEntry entry_;
  const std::string where_;
  uint64_t next_, packed_left_;  // of the packed bytes in the file
  uint64_t left_;                // of the entry's bytes
  uint32_t crc_ = 0;
  std::vector<uint8_t> buffer_;  // packed bytes on their way to zlib
  z_stream inflater_{};
};

// Writes stored entries atomically. The same content gives the same bytes.
class ZipWriter {
 public:
  explicit ZipWriter(const std::string& path) : file_(path) {}
  void add(const std::string& name, std::initializer_list<std::string_view> parts);
  void commit();

 private:
  AtomicFile file_;
  uint64_t entries_ = 0;
  std::string directory_;
};

}  // namespace poem

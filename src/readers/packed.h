// poem's packed file (.poem): all images of a source in one file, mapped instead of read. The layout is in
// docs/data.md. Several files of images of one size can be read as one set (readers/shards.h).
//
//   PackedWriter writer("pool.poem");
//   writer.add(pixels);                    // as often as there are blocks
//   writer.finish(labels);                 // only now the file appears
//   ImageSet set = map_packed("pool.poem");
//   PackedCheck check = check_packed("pool.poem");
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/file.h"
#include "poem/images.h"
#include "poem/reader.h"

namespace poem {

// CRC-32 of every block of so many bytes, as they come.
class BlockChecksums {
 public:
  static constexpr uint64_t kBlockBytes = 1 << 20;
  void add(const void* data, size_t bytes);
  std::vector<uint32_t> finish();  // with that of the last block, which may be shorter

 private:
  std::vector<uint32_t> done_;
  uint32_t current_ = 0;
  uint64_t filled_ = 0;  // bytes of the current block
};

class PackedWriter {
 public:
  explicit PackedWriter(const std::string& path);
  void add(const at::Tensor& pixels);    // uint8 n×C×H×W, contiguous; all blocks of one C×H×W
  int64_t finish(const Labels& labels);  // and names; returns the number of images

  // finish() in two steps, for files that appear together.
  void complete(const Labels& labels);
  void commit() { file_.commit(); }
  void pause() { file_.pause(); }  // until the next call

  int64_t count() const { return count_; }
  uint32_t checksum() const { return checksum_; }  // of the header, once complete: it stands for the file

 private:
  void put(const void* data, size_t bytes);

  AtomicFile file_;
  BlockChecksums checksums_;
  int64_t count_ = 0;
  uint32_t checksum_ = 0;
  std::vector<int64_t> shape_ = {0, 0, 0};  // C, H, W
};

// What the headers of packed files say.
struct PackedOutline {
  int64_t count = 0;
  std::vector<int64_t> shape;  // C, H, W
  uint32_t checksum = 0;       // of the header; 0 before version 3
  bool labelled = false, named = false;
};
PackedOutline outline_packed(const std::string& path);

// The pixels are a view of the mapped files, which stay mapped as long as the tensor lives; never write to
// it. Several files are one set, in this order: their images must have one size, and all of them labels or
// none. The set has the classes of all of them, and names if all have names.
ImageSet map_packed(const std::vector<std::string>& paths);

bool is_packed(const std::string& path);  // by its extension

// An Error if a packed file cannot be written there. `force` allows replacing a packed file, but no other
// file.
void check_packed_output(const std::string& path, bool force);

// Compares every block with its checksum, on all threads. A file whose header does not fit is an Error.
struct PackedCheck {
  struct Damage {
    int64_t block;                    // its number, from 0
    int64_t first_image, last_image;  // with a part of it; last < first: none
    bool tables;                      // whether it has a part of labels, names or checksums
  };
  std::string verdict() const;  // "block 1, images 341 to 682; block 4, …"; empty if nothing is damaged
  int64_t count = 0, blocks = 0;
  bool has_checksums = false;  // files before version 3 have none
  std::vector<Damage> damage;
};
PackedCheck check_packed(const std::string& path);

// An Error with the verdict if anything is damaged. Whoever writes the images into another file calls this
// first: the new file would have correct checksums of damaged images.
void refuse_damage(const std::string& path);

}  // namespace poem

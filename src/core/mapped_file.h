// Files mapped read-only: one file, or pieces of several as if they were one. Their pages can be read ahead
// and let go of, so that a walk over a file larger than the memory holds only a part of it.
//
//   const MappedFile file("pool.poem");
//   read_ahead({{file.data(), file.data() + bytes}});   // perhaps on a thread of its own
//   let_go({file.data(), file.data() + bytes});
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace poem {

constexpr uint64_t kPageBytes = 4096;  // mappings begin at multiples of it

struct FilePiece {
  std::string path;
  uint64_t offset, bytes;  // in the file; the offset is a multiple of kPageBytes
  uint64_t place;          // where the piece begins in memory, a multiple of kPageBytes
};

// Copies share the mapping.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // the whole file; an empty one is an Error
  // Pieces in the order of their places. What lies between two of them can be read and means nothing.
  explicit MappedFile(const std::vector<FilePiece>& pieces);

  const uint8_t* data() const { return static_cast<const uint8_t*>(memory_.get()); }
  size_t size() const { return size_; }
  std::shared_ptr<const void> keep_alive() const { return memory_; }

 private:
  std::shared_ptr<const void> memory_;
  size_t size_ = 0;
};

struct Span {  // of memory
  const uint8_t *begin, *end;
};

// Reads the pages under these spans (ascending) from the disk; they need not overlap. Throws an Error if one
// of the files was changed since it was mapped. Memory that is not mapped from a file is left alone.
void read_ahead(const std::vector<Span>& spans);

// Throws an Error if any file was changed since it was mapped.
void check_mapped_files();

// Gives the pages of mapped files back to the system. It keeps them while it has room, unless the files that
// are mapped need more than half of the memory that was free when the last one was: then it forgets them if
// nobody needs them `soon`.
void let_go(Span span, bool soon = false);

// From now on, if a mapped page cannot be read because the file was cut short or its disk failed, the program
// prints one line that names the file, and ends with this exit code.
void name_lost_pages(int exit_code);

}  // namespace poem

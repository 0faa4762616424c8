// Files and folders: reading whole or in pieces, writing atomically. Every failure is a poem::Error that
// names the path and the system's reason.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace poem {

std::string read_file(const std::string& path);

// For code that calls the system itself: a descriptor to read from, never that of a folder; and the Error for
// an errno, "cannot ACTION: …".
int open_to_read(const std::string& path);
[[noreturn]] void fail_with(const std::string& path, const std::string& action, int code);

// Bytes from the first to the last.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual void read(void* to, size_t bytes) = 0;  // exactly so many; an Error where they end before
  virtual void finish() {}                        // when all are read: an Error if they are damaged
};

// A file of which pieces are read.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }                       // never 0: an empty file is an Error
  void read_at(uint64_t offset, void* to, size_t bytes) const;  // an Error where the file ends before that

 private:
  std::string path_;
  int descriptor_;
  uint64_t size_ = 0;
};

class FileStream : public ByteStream {
 public:
  explicit FileStream(std::shared_ptr<const InputFile> file) : file_(std::move(file)) {}
  void read(void* to, size_t bytes) override {
    file_->read_at(next_, to, bytes);
    next_ += bytes;
  }

 private:
  std::shared_ptr<const InputFile> file_;
  uint64_t next_ = 0;
};

// A file that appears under its name only when complete: bytes go to PATH.tmp, commit() syncs it, renames it
// and syncs its folder. Without commit() the destructor removes the temporary file. A lock on it keeps other
// writers out, unless the file system has none; what a kill leaves is not locked and is replaced.
class AtomicFile {
 public:
  static constexpr double kPatience = 10;  // seconds, far more than it takes to write a file from memory

  // If the file is being written already, waits for so many seconds. Then it is an Error.
  explicit AtomicFile(const std::string& path, double patience = kPatience);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(const void* data, size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void write_at(uint64_t offset, const void* data, size_t bytes);  // overwrites what is there already
  uint64_t size() const { return size_; }
  // Closes the file until the next write: a process may have few files open at a time. It is not locked then,
  // so something else must keep other writers out.
  void pause();
  void commit();

 private:
  [[noreturn]] void fail(const char* action) const;
  void open(int flags);
  bool lock();  // false: another one has it
  std::string path_, temporary_;
  bool committed_ = false;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

void write_file(const std::string& path, std::string_view content);  // atomically

// An Error if `path` holds something already, or cannot be made or written into. With `force` it may,
// provided that it contains `mark`, the file that tells a folder of poem's own from anybody else's. Touches
// nothing: an Error after it costs nothing.
void check_output_folder(const std::string& path, bool force, const std::string& mark);
void make_output_folder(const std::string& path);  // parents too
void empty_folder(const std::string& path);        // removes everything in it but a lock (core/lock.h)

// Makes the folder (or empties it, if `force` and `mark` allow that) and calls `write`, which fills it. If
// `write` throws, nothing stays behind. Another process that fills it at the same time is an Error.
void fill_output_folder(const std::string& path, bool force, const std::string& mark,
                        const std::function<void()>& write);

}  // namespace poem

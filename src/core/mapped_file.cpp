#include "core/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <future>
#include <memory>
#include <mutex>

#include "core/file.h"
#include "core/memory.h"
#include "poem/error.h"

namespace poem {
namespace {

// What is mapped where. A signal handler reads the list, so its entries are never freed: those of files that
// are no longer mapped (begin is null) are used again.
struct Mapping {
  std::atomic<const uint8_t*> begin{nullptr};
  const uint8_t* end = nullptr;
  std::string path;
  uint64_t offset = 0;  // in the file, where the mapping begins
  struct stat state = {};
  Mapping* next = nullptr;

  bool overlaps(Span span) const {
    const uint8_t* from = begin.load();
    return from != nullptr && from < span.end && span.begin < end;
  }
};
std::atomic<Mapping*> mappings{nullptr};
std::mutex changing_mappings;

// Whether the system's cache shall keep what was read, for the next walk. Files that would fill it push out
// what is needed more often, and are pushed out themselves before they are read again. A virtual machine may
// also take longer to fill memory than to read (docs/performance.md): better to use the same pages again.
std::atomic<bool> cache_keeps{true};

void choose_cache() {
  const std::lock_guard<std::mutex> lock(changing_mappings);
  uint64_t mapped = 0;
  for (const Mapping* entry = mappings; entry != nullptr; entry = entry->next)
    if (const uint8_t* begin = entry->begin; begin != nullptr)
      mapped += static_cast<uint64_t>(entry->end - begin);
  cache_keeps = mapped <= available_memory() / 2;
}

void note_mapping(Span span, const FilePiece& piece, const struct stat& state) {
  const std::lock_guard<std::mutex> lock(changing_mappings);
  Mapping* entry = mappings;
  while (entry != nullptr && entry->begin != nullptr) entry = entry->next;
  const bool fresh = entry == nullptr;
  if (fresh) entry = new Mapping;
  entry->end = span.end;
  entry->path = piece.path;
  entry->offset = piece.offset;
  entry->state = state;
  entry->begin = span.begin;
  if (!fresh) return;
  entry->next = mappings;
  mappings = entry;
}

void forget_mappings(Span span) {
  const std::lock_guard<std::mutex> lock(changing_mappings);
  for (Mapping* entry = mappings; entry != nullptr; entry = entry->next)
    if (entry->overlaps(span)) entry->begin = nullptr;
}

struct Descriptor {
  int number;
  ~Descriptor() { ::close(number); }
};

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Calls use(descriptor, place in the file, bytes) for each file under this span. A file whose name now
// belongs to another one is left out.
template <class Use>
void for_files(Span span, const Use& use) {
  for (const Mapping* entry = mappings; entry != nullptr; entry = entry->next) {
    if (!entry->overlaps(span)) continue;
    const Descriptor file{::open(entry->path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat now;
    if (file.number < 0 || ::fstat(file.number, &now) != 0 || !is_same_file(now, entry->state)) continue;
    const uint8_t* begin = entry->begin;
    const uint8_t *first = std::max(span.begin, begin), *last = std::min(span.end, entry->end);
    use(file.number, static_cast<off_t>(entry->offset) + (first - begin), last - first);
  }
}

// Maps a piece at an address of memory that is ours.
void map_piece(const FilePiece& piece, uint8_t* at) {
  const Descriptor file{open_to_read(piece.path)};
  struct stat state;
  if (::fstat(file.number, &state) != 0) fail_with(piece.path, "read", errno);
  if (static_cast<uint64_t>(state.st_size) < piece.offset + piece.bytes)
    throw Error(piece.path, "was cut short while poem opened it", "copy or write the file again");
  if (::mmap(at, piece.bytes, PROT_READ, MAP_SHARED | MAP_FIXED, file.number,
             static_cast<off_t>(piece.offset)) == MAP_FAILED)
    fail_with(piece.path, "map", errno);
  note_mapping({at, at + piece.bytes}, piece, state);
}

// Another file under the same name does no harm: the mapping keeps the file that was opened.
void check_unchanged(const Mapping& mapping) {
  struct stat now;
  const struct stat& then = mapping.state;
  if (::stat(mapping.path.c_str(), &now) != 0) return;
  if (!is_same_file(now, then)) return;
  if (now.st_size == then.st_size && now.st_mtim.tv_sec == then.st_mtim.tv_sec &&
      now.st_mtim.tv_nsec == then.st_mtim.tv_nsec)
    return;
  throw Error(mapping.path, "was changed while poem was reading it",
              "leave the file alone while poem runs, or put a new one under another name");
}

Span whole_pages(Span span) {
  const auto down = [](const uint8_t* p) { return p - reinterpret_cast<uintptr_t>(p) % kPageBytes; };
  return {down(span.begin), down(span.end + kPageBytes - 1)};
}

// Announces these pages to the kernel, so that the disk works on many of them at a time.
void announce(Span span) {
  constexpr ptrdiff_t kStep = 128 << 10;  // the kernel reads no more at a time than its window
  const auto [begin, end] = whole_pages(span);
  for (const uint8_t* p = begin; p < end; p += kStep)
    ::madvise(const_cast<uint8_t*>(p), static_cast<size_t>(std::min(kStep, end - p)), MADV_WILLNEED);
}

// Waits for these pages and enters them into the page table, so that whoever needs them next need not wait.
void enter(Span span) {
  const auto [begin, end] = whole_pages(span);
#ifdef MADV_POPULATE_READ  // from Linux 5.14 on
  if (::madvise(const_cast<uint8_t*>(begin), static_cast<size_t>(end - begin), MADV_POPULATE_READ) == 0)
    return;
#endif
  for (const uint8_t* p = begin; p < span.end; p += kPageBytes)
    static_cast<void>(*const_cast<const volatile uint8_t*>(std::max(p, span.begin)));
}

// Reads these pages into the cache in order, for which the kernel takes less processor time and larger pages,
// and enters them. What cannot be read is noticed then.
void read_through(Span span) {
  for_files(span, [](int file, off_t place, ptrdiff_t bytes) {
    ::posix_fadvise(file, place, bytes, POSIX_FADV_SEQUENTIAL);
    constexpr ptrdiff_t kStep = 512 << 10;
    const std::unique_ptr<char[]> unused(new char[kStep]);
    while (bytes > 0) {
      const ssize_t count = ::pread(file, unused.get(), static_cast<size_t>(std::min(kStep, bytes)), place);
      if (count <= 0) return;
      place += count;
      bytes -= count;
    }
  });
  enter(span);
}

// Several readers, so that a disk that answers slowly has more than one thing to do.
void read_through(const std::vector<Span>& pieces) {
  constexpr int kReaders = 4;
  std::atomic<size_t> next{0};
  const auto read = [&] {
    for (size_t i = next++; i < pieces.size(); i = next++) read_through(pieces[i]);
  };
  std::vector<std::future<void>> readers;
  for (int i = 0; i < kReaders; ++i) readers.push_back(std::async(std::launch::async, read));
  for (auto& reader : readers) reader.get();
}

std::atomic<int> lost_page_code{0};

void tell_lost_page(int signal, siginfo_t* info, void*) {
  const auto* address = static_cast<const uint8_t*>(info->si_addr);
  for (const Mapping* entry = mappings; entry != nullptr; entry = entry->next) {
    if (!entry->overlaps(whole_pages({address, address + 1}))) continue;
    for (const char* text : {"poem: ", entry->path.c_str(),
                             ": a part of it is gone: the file was cut short or its disk failed while poem "
                             "was reading it (copy or write the file again)\n"})
      if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) break;
    ::_exit(lost_page_code);
  }
  std::signal(signal, SIG_DFL);  // not ours: the access that failed is tried again, and ends the program
}

}  // namespace

MappedFile::MappedFile(const std::string& path)
    : MappedFile(std::vector<FilePiece>{{path, 0, InputFile(path).size(), 0}}) {}

MappedFile::MappedFile(const std::vector<FilePiece>& pieces) {
  for (const FilePiece& piece : pieces)
    if (piece.bytes == 0) throw Error(piece.path, "is empty", "write the file again");
  size_ = pieces.back().place + pieces.back().bytes;
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, /*fd=*/-1, 0);
  if (memory == MAP_FAILED) fail_with(pieces[0].path, "map", errno);
  memory_ = std::shared_ptr<const void>(memory, [size = size_](const void* p) {
    const auto* begin = static_cast<const uint8_t*>(p);
    forget_mappings({begin, begin + size});
    ::munmap(const_cast<void*>(p), size);
  });
  for (const FilePiece& piece : pieces) map_piece(piece, static_cast<uint8_t*>(memory) + piece.place);
  choose_cache();
}

void read_ahead(const std::vector<Span>& spans) {
  if (spans.empty()) return;
  const Span all{spans.front().begin, spans.back().end};
  bool mapped = false;
  for (const Mapping* entry = mappings; entry != nullptr; entry = entry->next) {
    if (!entry->overlaps(all)) continue;
    mapped = true;
    check_unchanged(*entry);
  }
  if (!mapped) return;
  constexpr ptrdiff_t kPiece = 4 << 20;  // bytes; shorter spans may be far apart
  std::vector<Span> announced, pieces;
  for (const Span& span : spans) {
    if (cache_keeps || span.end - span.begin < kPiece) {
      announce(span);
      announced.push_back(span);
      continue;
    }
    for (const uint8_t* p = span.begin; p < span.end; p += std::min(kPiece, span.end - p))
      pieces.push_back({p, p + std::min(kPiece, span.end - p)});
  }
  if (!pieces.empty()) read_through(pieces);
  for (const Span& span : announced) enter(span);
}

void check_mapped_files() {
  const std::lock_guard<std::mutex> lock(changing_mappings);
  for (const Mapping* entry = mappings; entry != nullptr; entry = entry->next)
    if (entry->begin != nullptr) check_unchanged(*entry);
}

void let_go(Span span, bool soon) {
  for (const Mapping* entry = mappings; entry != nullptr; entry = entry->next) {
    if (!entry->overlaps(span)) continue;
    const uint8_t *first = std::max(span.begin, entry->begin.load()), *last = std::min(span.end, entry->end);
    const auto [begin, end] = whole_pages({first, last});
    ::madvise(const_cast<uint8_t*>(begin), static_cast<size_t>(end - begin), MADV_DONTNEED);
  }
  if (soon || cache_keeps) return;
  for_files(whole_pages(span), [](int file, off_t place, ptrdiff_t bytes) {
    ::posix_fadvise(file, place, bytes, POSIX_FADV_DONTNEED);
  });
}

void name_lost_pages(int exit_code) {
  lost_page_code = exit_code;
  struct sigaction action = {};
  action.sa_sigaction = tell_lost_page;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace poem

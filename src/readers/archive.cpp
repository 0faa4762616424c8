// Zip and tar archives of image files, streamed by libarchive: one, several named with braces, or a folder of
// them.
#include "readers/archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <istream>
#include <string>
#include <string_view>
#include <utility>

#include "core/progress.h"
#include "poem/error.h"
#include "readers/decode.h"
#include "readers/image_files.h"
#include "readers/image_list.h"
#include "readers/reader_tools.h"
#include "readers/shards.h"

#ifdef POEM_HAS_ARCHIVE
#include "readers/archive_file.h"
#endif

namespace poem {
namespace {

namespace fs = std::filesystem;

bool has_archive_name(const std::string& path) {
  for (const char* extension : {".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz"})
    if (has_extension(path, extension)) return true;
  return false;
}

// Archives, perhaps beside files that describe them, but neither images nor folders. Ends at the first of
// those, so that a folder of a million images costs nothing.
bool is_folder_of_archives(const std::string& path) {
  std::error_code code;
  bool archives = false;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, code)) {
    const std::string name = entry.path().filename().string();
    if (is_hidden(name)) continue;
    if (entry.is_directory(code) || is_image_name(name)) return false;
    archives |= has_archive_name(name);
  }
  return archives;
}

#ifdef POEM_HAS_ARCHIVE

Archive open_archive(const std::string& path) {
  Archive file = new_archive();
  archive_read_support_format_zip_seekable(file.get());  // the other zip reader accepts truncated files
  constexpr size_t kBlockBytes = 1 << 18;
  if (archive_read_open_filename(file.get(), path.c_str(), kBlockBytes) != ARCHIVE_OK)
    fail_as_archive(path, file.get());
  return file;
}

// Adds the images of an open archive. `prefix` stands before their names in messages.
void add_entries(archive* file, const std::string& path, const std::string& prefix, int64_t bytes,
                 ImageFiles& files) {
  constexpr int64_t kMega = 1000000;
  Progress bar("reading " + path, bytes / kMega, "MB");
  int64_t shown = 0;
  uint64_t end = 0;
  while (archive_entry* entry = next_entry(path, file)) {
    const int64_t consumed = archive_filter_bytes(file, -1) / kMega;
    bar.advance(consumed - std::exchange(shown, consumed));
    const std::string name = entry_name(entry);
    if (is_image_entry(path, file, entry, files)) {
      try {
        files.add(prefix + name, name, read_entry(path, file, entry));
      } catch (const BadEntry& problem) {
        files.add_bad(prefix + name, name, problem);
      }
    }
    end = skip_entry(path, name, file);
  }
  check_tar_end(path, file, end);
  files.leave_sample();
}

// Calls `add`, which adds the images of archives.
template <class Add>
Labels visit_entries(const std::string& source, const ReadOptions& options, const Sink& sink, Add add) {
  ImageFiles files(source, options, sink);
  try {
    add(files);
  } catch (const Error&) {
    if (options.on_image) files.flush();  // the images before the damage get their answers
    throw;
  }
  return files.finish();
}

Labels visit_archives(const std::string& source, const ReadOptions& options, const Sink& sink) {
  return visit_entries(source, options, sink, [&](ImageFiles& files) {
    for (const std::string& path : archive_paths(source)) {
      const Archive file = open_archive(path);
      const auto bytes = static_cast<int64_t>(fs::file_size(path));
      add_entries(file.get(), path, path + ":", bytes, files);
    }
  });
}

// A tar that comes block by block.
class TarStream {
 public:
  TarStream(std::istream& stream, std::string start) : stream_(stream), block_(std::move(start)) {}

  // libarchive's callback for the next bytes.
  static la_ssize_t read(archive*, void* self, const void** buffer) {
    auto& stream = *static_cast<TarStream*>(self);
    if (std::exchange(stream.started_, true)) {
      stream.block_.resize(size_t{1} << 16);
      stream.stream_.read(stream.block_.data(), static_cast<std::streamsize>(stream.block_.size()));
      stream.block_.resize(static_cast<size_t>(stream.stream_.gcount()));
    }
    *buffer = stream.block_.data();
    return static_cast<la_ssize_t>(stream.block_.size());
  }

 private:
  std::istream& stream_;
  std::string block_;
  bool started_ = false;
};

#else

Labels visit_archives(const std::string& path, const ReadOptions&, const Sink&) {
  throw Error(path, "archives cannot be read: poem was built without libarchive",
              "unpack it and name the folder, or build with libarchive-dev");
}

#endif

}  // namespace

bool is_archive(const std::string& path) {
  return fs::is_directory(path) ? is_folder_of_archives(path) : has_archive_name(path);
}

std::vector<std::string> archive_paths(const std::string& source) {
  if (!fs::is_directory(source)) return expand_braces(source);
  std::vector<std::string> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    if (has_archive_name(name) && !is_hidden(name)) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

bool is_plain_tar(std::string_view start) {
  constexpr size_t kMagic = 257;  // where a tar says that it is one
  return start.size() > kMagic && start.substr(kMagic, 5) == "ustar";
}

bool is_tar(std::string_view start) {
  const std::string_view gzip("\x1f\x8b", 2), xz("\xfd"
                                                 "7zXZ\0",
                                                 6);
  return is_plain_tar(start) || start.substr(0, gzip.size()) == gzip || start.substr(0, xz.size()) == xz;
}

Labels visit_tar(std::istream& stream, std::string start, const ReadOptions& options, const Sink& sink) {
  const std::string where = "standard input";
#ifdef POEM_HAS_ARCHIVE
  TarStream tar(stream, std::move(start));
  return visit_entries(where, options, sink, [&](ImageFiles& files) {
    const Archive file = new_archive();
    if (archive_read_open(file.get(), &tar, nullptr, TarStream::read, nullptr) != ARCHIVE_OK)
      fail_as_archive(where, file.get());
    add_entries(file.get(), where, "", 0, files);
  });
#else
  (void)stream;
  (void)start;
  return visit_archives(where, options, sink);
#endif
}

extern const Reader archive_reader = {".zip, .tar, .tar.gz or .tar.xz of images, or a folder of them",
                                      is_archive, visit_archives};

}  // namespace poem

// Zip and tar archives of image files, streamed by libarchive.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/progress.h"
#include "poem/error.h"
#include "readers/decode.h"
#include "readers/image_files.h"
#include "readers/image_list.h"
#include "readers/reader_tools.h"

#ifdef POEM_HAS_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

namespace poem {
namespace {

namespace fs = std::filesystem;

bool is_archive(const std::string& path) {
  for (const char* extension : {".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz"})
    if (has_extension(path, extension)) return true;
  return false;
}

#ifdef POEM_HAS_ARCHIVE

using Archive = std::unique_ptr<archive, int (*)(archive*)>;

[[noreturn]] void fail(const std::string& path, archive* from) {
  const char* reason = archive_error_string(from);
  throw Error(path, fmt::format("cannot be read as an archive: {}", reason ? reason : "unknown reason"),
              "download or pack it again");
}

Archive new_archive() {
  Archive file(archive_read_new(), archive_read_free);
  archive_read_support_filter_gzip(file.get());
  archive_read_support_filter_xz(file.get());
  archive_read_support_format_tar(file.get());
  return file;
}

Archive open_archive(const std::string& path) {
  Archive file = new_archive();
  archive_read_support_format_zip_seekable(file.get());  // the other zip reader accepts truncated files
  constexpr size_t kBlockBytes = 1 << 18;
  if (archive_read_open_filename(file.get(), path.c_str(), kBlockBytes) != ARCHIVE_OK) fail(path, file.get());
  return file;
}

std::string name_of(archive_entry* entry) {
  const char* name = archive_entry_pathname_utf8(entry);
  if (name == nullptr) name = archive_entry_pathname(entry);
  return fs::path(name == nullptr ? "" : name).lexically_normal().string();
}

bool hidden(const fs::path& name) {
  return std::any_of(name.begin(), name.end(), [](const fs::path& part) { return is_hidden(part.string()); });
}

// The content of the current entry. It is empty if only this entry is damaged (a wrong checksum), so that the
// entry counts as one bad image.
std::string read_entry(const std::string& path, const std::string& name, archive* file) {
  constexpr size_t kMostBytes = size_t{1} << 30;  // a larger file has more pixels than can be decoded
  std::string bytes;
  char block[1 << 16];
  for (;;) {
    const la_ssize_t got = archive_read_data(file, block, sizeof block);
    if (got == ARCHIVE_FATAL) fail(path, file);
    if (got < 0) return "";
    if (got == 0) return bytes;
    bytes.append(block, static_cast<size_t>(got));
    if (bytes.size() > kMostBytes)
      throw Error(path + ":" + name, "unpacks to more than 1 GiB, too much for an image",
                  "remove it from the archive");
  }
}

// Adds the images of an open archive. `prefix` stands before their names in messages.
void add_entries(archive* file, const std::string& path, const std::string& prefix, int64_t bytes,
                 ImageFiles& files) {
  constexpr int64_t kMega = 1000000;
  Progress bar("reading " + path, bytes / kMega, "MB");
  int64_t shown = 0;
  for (;;) {
    const int64_t consumed = archive_filter_bytes(file, -1) / kMega;
    bar.advance(consumed - std::exchange(shown, consumed));
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(file, &entry);
    if (code == ARCHIVE_EOF) break;
    if (code < ARCHIVE_WARN) fail(path, file);  // a warning is about names and dates
    const std::string name = name_of(entry);
    const auto type = archive_entry_filetype(entry);
    if (hidden(name)) continue;
    if (type == AE_IFDIR) files.add_folder(fs::path(name + "/").parent_path().string());
    if (type != AE_IFREG) continue;
    if (is_image_name(name))
      files.add(prefix + name, name, read_entry(path, name, file));
    else
      files.pass_over(name);
  }
}

Labels visit_entries(archive* file, const std::string& path, const std::string& prefix, int64_t bytes,
                     const ReadOptions& options, const Sink& sink) {
  ImageFiles files(path, options, sink);
  try {
    add_entries(file, path, prefix, bytes, files);
  } catch (const Error&) {
    if (options.on_image) files.flush();  // the images before the damage get their answers
    throw;
  }
  return files.finish();
}

Labels visit_archive(const std::string& path, const ReadOptions& options, const Sink& sink) {
  const Archive file = open_archive(path);
  return visit_entries(file.get(), path, path + ":", static_cast<int64_t>(fs::file_size(path)), options,
                       sink);
}

// libarchive's callback for the next bytes of a stream.
la_ssize_t read_more(archive*, void* more, const void** buffer) {
  const std::string_view bytes = (*static_cast<const std::function<std::string_view()>*>(more))();
  *buffer = bytes.data();
  return static_cast<la_ssize_t>(bytes.size());
}

#else

Labels visit_archive(const std::string& path, const ReadOptions&, const Sink&) {
  throw Error(path, "archives cannot be read: poem was built without libarchive",
              "unpack it and name the folder, or build with libarchive-dev");
}

#endif

}  // namespace

bool is_tar(std::string_view start) {
  constexpr size_t kMagic = 257;  // where a tar says that it is one
  const std::string_view gzip("\x1f\x8b", 2), xz("\xfd"
                                                 "7zXZ\0",
                                                 6);
  return (start.size() > kMagic && start.substr(kMagic, 5) == "ustar") ||
         start.substr(0, gzip.size()) == gzip || start.substr(0, xz.size()) == xz;
}

Labels visit_tar(const std::function<std::string_view()>& more, const ReadOptions& options,
                 const Sink& sink) {
  const std::string where = "standard input";
#ifdef POEM_HAS_ARCHIVE
  const Archive file = new_archive();
  auto next = more;
  if (archive_read_open(file.get(), &next, nullptr, read_more, nullptr) != ARCHIVE_OK)
    fail(where, file.get());
  return visit_entries(file.get(), where, "", 0, options, sink);
#else
  (void)more;
  return visit_archive(where, options, sink);
#endif
}

extern const Reader archive_reader = {".zip, .tar, .tar.gz or .tar.xz of images", is_archive, visit_archive};

}  // namespace poem

#ifdef POEM_HAS_ARCHIVE
#include "readers/archive_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "readers/decode.h"
#include "readers/passed_over.h"
#include "readers/reader_tools.h"

namespace poem {

namespace fs = std::filesystem;

Archive new_archive() {
  Archive file(archive_read_new(), archive_read_free);
  archive_read_support_filter_gzip(file.get());
  archive_read_support_filter_xz(file.get());
  archive_read_support_format_tar(file.get());
  archive_read_set_options(file.get(), "read_concatenated_archives");  // of cat a.tar b.tar
  return file;
}

namespace {

constexpr const char* kRemedy = "download or pack it again";

std::string reason_of(archive* file) {
  const char* reason = archive_error_string(file);
  return reason ? reason : "unknown reason";
}

[[noreturn]] void fail_as_entry(const std::string& where, archive* file, archive_entry* entry) {
  if (archive_entry_is_data_encrypted(entry))
    throw BadEntry(where, "is encrypted", "save the archive without a password");
  throw BadEntry(where, "cannot be unpacked: " + reason_of(file), kRemedy);
}

// How many bytes of the unpacked archive were read.
uint64_t position(archive* file) { return static_cast<uint64_t>(archive_filter_bytes(file, 0)); }

}  // namespace

void fail_as_archive(const std::string& path, archive* file) {
  throw Error(path, "cannot be read as an archive: " + reason_of(file), kRemedy);
}

archive_entry* next_entry(const std::string& path, archive* file) {
  archive_entry* entry = nullptr;
  const int code = archive_read_next_header(file, &entry);
  if (code == ARCHIVE_EOF) return nullptr;
  if (code < ARCHIVE_WARN) fail_as_archive(path, file);  // a warning is about names and dates
  return entry;
}

std::string entry_name(archive_entry* entry) {
  const char* name = archive_entry_pathname_utf8(entry);
  if (name == nullptr) name = archive_entry_pathname(entry);
  std::string path = fs::path(name == nullptr ? "" : name).lexically_normal().string();
  while (path.rfind("../", 0) == 0) path.erase(0, 3);
  return path;
}

bool is_image_entry(const std::string& path, archive* file, archive_entry* entry, ImageFiles& files) {
  const fs::path name = entry_name(entry);
  const auto hidden = [](const fs::path& part) { return is_hidden(part.string()); };
  if (std::any_of(name.begin(), name.end(), hidden)) return false;
  const auto type = archive_entry_filetype(entry);
  if (type == AE_IFDIR) files.add_folder((name / "").parent_path().string());
  const bool link = archive_entry_hardlink(entry) != nullptr || type == AE_IFLNK;
  if (link) files.pass_over(name.string() + " (a link)");
  if (link || type != AE_IFREG) return false;
  if (is_image_name(name.string())) return true;
  if (has_extension(name.string(), ".cls") && files.takes_classes())
    files.add_class(path + ":" + name.string(), name.string(), read_entry(path, file, entry));
  else
    files.pass_over(name.string());
  return false;
}

std::string read_entry(const std::string& path, archive* file, archive_entry* entry) {
  const std::string where = path + ":" + entry_name(entry);
  std::string bytes;
  char block[1 << 16];
  for (;;) {
    const la_ssize_t got = archive_read_data(file, block, sizeof block);
    if (got == ARCHIVE_FATAL) fail_as_archive(path, file);
    if (got < 0) fail_as_entry(where, file, entry);
    if (got == 0) return bytes;
    bytes.append(block, static_cast<size_t>(got));
    if (bytes.size() > kMostImageBytes)
      throw Error(where, "unpacks to more than 1 GiB, too much for an image", "remove it from the archive");
  }
}

uint64_t skip_entry(const std::string& path, const std::string& name, archive* file) {
  if (archive_read_data_skip(file) < ARCHIVE_WARN)
    throw Error(path, fmt::format("ends early, in {}", name), "download or write it again");
  return position(file);
}

void check_tar_end(const std::string& path, archive* file, uint64_t end_of_entries) {
  constexpr uint64_t kEnd = 1024;  // zeros
  const bool tar = (archive_format(file) & ARCHIVE_FORMAT_BASE_MASK) == ARCHIVE_FORMAT_TAR;
  if (tar && position(file) < end_of_entries + kEnd)
    throw Error(path, "ends before the tar is complete", "download or write it again");
}

}  // namespace poem
#endif

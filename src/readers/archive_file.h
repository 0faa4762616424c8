// What reading archives with libarchive takes.
//
//   const Archive file = new_archive();
//   archive_read_open_memory(file.get(), data, bytes);
//   while (archive_entry* entry = next_entry("a.tar", file.get()))
//     if (is_image_entry("a.tar", file.get(), entry, files)) use(read_entry("a.tar", file.get(), entry));
#pragma once
#include <archive.h>
#include <archive_entry.h>

#include <cstdint>
#include <memory>
#include <string>

#include "poem/error.h"
#include "readers/image_files.h"

namespace poem {

using Archive = std::unique_ptr<archive, int (*)(archive*)>;

Archive new_archive();  // of a tar, or several in a row, perhaps compressed with gzip or xz

[[noreturn]] void fail_as_archive(const std::string& path, archive* file);

archive_entry* next_entry(const std::string& path, archive* file);  // null at the end

std::string entry_name(archive_entry* entry);  // its path in the archive, without "./" and "../"

// Whether the current entry is an image, by its name. `files` is told of other files, of links, of folders,
// and of classes (.cls).
bool is_image_entry(const std::string& path, archive* file, archive_entry* entry, ImageFiles& files);

// The content of the current entry. If only this entry cannot be unpacked (a password, a wrong checksum), it
// is a BadEntry, so that the entry counts as one bad image.
struct BadEntry : Error {
  using Error::Error;
};
std::string read_entry(const std::string& path, archive* file, archive_entry* entry);

// Goes to the end of the current entry and returns where in the unpacked archive that is. An Error if the
// archive ends before.
uint64_t skip_entry(const std::string& path, const std::string& name, archive* file);

// Once there is no next entry: an Error if the zeros that mark the end of a tar do not follow its last entry,
// which ends here. Then the tar was cut between two entries.
void check_tar_end(const std::string& path, archive* file, uint64_t end_of_entries);

}  // namespace poem

// Which of the known data sets a folder holds, and whether they are whole: downloads and unpacked files by
// name, size and checksum, folders of images by their count.
//
//   for (const Holding& holding : find_holdings("data", known_sets()))
//     if (!holding.whole) …
#pragma once
#include <string>
#include <vector>

#include "data/manifest.h"

namespace poem {

struct Holding {
  std::string set;     // its name
  std::string place;   // file or folder, below the folder looked into
  bool whole = false;  // as far as can be told
  std::string detail;  // "170052171 bytes, sha256 right", "5 of 6 files, missing test_batch.bin"
};

// In the manifest's order. Folders are looked into at any depth; those that cannot be are named in a warning.
std::vector<Holding> find_holdings(const std::string& folder, const Manifest& manifest);

// Whether the file is the known one: empty, or what is wrong with it, also that it cannot be read. Reads all
// of it for the checksum.
std::string fault_of(const KnownFile& file, const std::string& path);

}  // namespace poem

// Which of the known data sets a folder contains, and whether they are complete. Downloads and unpacked files
// are checked by name, size and checksum, folders of images by their count.
//
//   for (const Holding& holding : find_holdings("data", known_sets()))
//     if (!holding.whole) …
#pragma once
#include <string>
#include <vector>

#include "catalogue/manifest.h"

namespace poem {

struct Holding {
  std::string set;     // its name
  std::string place;   // file or folder, relative to the folder searched
  bool whole = false;  // as far as can be checked
  std::string detail;  // "170052171 bytes, sha256 correct", "5 of 6 files, missing test_batch.bin"
};

// In the manifest's order. Searches folders at any depth and warns about those that cannot be listed.
std::vector<Holding> find_holdings(const std::string& folder, const Manifest& manifest);

// What is wrong with the file, for instance that it cannot be read; empty if it is the known file. Reads the
// whole file for the checksum.
std::string fault_of(const KnownFile& file, const std::string& path);

}  // namespace poem

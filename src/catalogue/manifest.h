// The data sets that poem knows by name: where they come from, how large they are, and how to check whether a
// copy is complete. The facts are in manifest.yaml, which is compiled into the program.
//
//   const Manifest manifest = known_sets();
//   for (const KnownFile& file : find_set(manifest, "cifar-10").downloads) fetch(file.sources[0]);
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace poem {

struct KnownFile {
  std::string name;
  int64_t least = 0, most = INT64_MAX;  // bytes; equal if the exact size is known
  std::string checksum;                 // "sha256:…" or "md5:…"; empty if it is unknown
  std::vector<std::string> sources;     // URLs in the order in which they are tried

  bool size_known() const { return least == most; }
  bool size_fits(int64_t bytes) const { return least <= bytes && bytes <= most; }
};

struct KnownSet {
  std::string name, title, use;
  std::string withdrawn;             // why it is no longer offered; empty if it is
  int64_t images = 0, subset = 0;    // how many it has, and how many of them the authors use; 0: all
  std::vector<KnownFile> downloads;  // the files that its owners offer
  std::vector<KnownFile> unpacked;   // the files that unpacking puts into one folder …
  std::vector<std::string> folders;  // … or possible ends of the path of the folder with its images
};

using Manifest = std::vector<KnownSet>;

Manifest known_sets();                            // the sets of manifest.yaml
Manifest read_manifest(const std::string& path);  // a file of the same form; an Error if its form differs

// An unknown name is an Error that lists the known ones.
const KnownSet& find_set(const Manifest& manifest, const std::string& name);

}  // namespace poem

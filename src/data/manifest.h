// The data sets that poem knows by name: where they come from, how large they are, how to tell whether a copy
// is whole. The facts are in manifest.yaml, which is compiled into the program.
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
  int64_t least = 0, most = INT64_MAX;  // bytes; the same where the number is known
  std::string checksum;                 // "sha256:…" or "md5:…", empty where it is unknown
  std::vector<std::string> sources;     // URLs in the order they are tried

  bool size_known() const { return least == most; }
  bool size_fits(int64_t bytes) const { return least <= bytes && bytes <= most; }
};

struct KnownSet {
  std::string name, title, use;
  std::string withdrawn;             // why it is not offered any more
  int64_t images = 0, subset = 0;    // how many it has, and how many of them the authors use; 0: all
  std::vector<KnownFile> downloads;  // as its owners offer it
  std::vector<KnownFile> unpacked;   // files in one folder that unpacking gives …
  std::vector<std::string> folders;  // … or ends of the path of the folder whose images count
};

using Manifest = std::vector<KnownSet>;

Manifest known_sets();                            // those of manifest.yaml
Manifest read_manifest(const std::string& path);  // a file of the same form; what does not fit it is an Error

// An Error that lists the known names if there is none like this.
const KnownSet& find_set(const Manifest& manifest, const std::string& name);

}  // namespace poem

// Downloads: tries several sources in turn, resumes where it stopped, and compares the checksum.
//
//   fetch_file(find_set(known_sets(), "svhn").downloads[0], "data");   // data/test_32x32.mat
#pragma once
#include <string>

#include "catalogue/manifest.h"

namespace poem {

// Downloads `file` into `folder`. A missing folder is made, and removed again if nothing arrives. An existing
// file that is correct is kept; one that is wrong is an Error. The bytes go to NAME.part, which stays if the
// download stops (Ctrl-C, a lost connection), and the next call resumes it. A download with the wrong size or
// checksum is removed, and the next source is tried. An Error names every source and what was wrong with it.
void fetch_file(const KnownFile& file, const std::string& folder);

}  // namespace poem

// Downloads: from several sources in turn, resumed where they stopped, compared with the checksum.
//
//   fetch_file(find_set(known_sets(), "svhn").downloads[0], "data");   // data/test_32x32.mat
#pragma once
#include <string>

#include "data/manifest.h"

namespace poem {

// Brings `file` to `folder`, which is made if need be and does not stay if nothing comes. A file that is
// there and right is left alone, one that is wrong is an Error. Bytes are collected in NAME.part, which stays
// when the download stops (Ctrl-C, a lost connection) and is taken up by the next one; what has the wrong
// size or checksum is removed and the next source is tried. An Error names every source and what was wrong
// with it.
void fetch_file(const KnownFile& file, const std::string& folder);

}  // namespace poem

// Writes images as a folder of PNG files, which read_images() reads again.
//
//   write_folder(draw_world("test", 400, 0), "photos/test");  // photos/test/boat/000007.png, …
#pragma once
#include <string>

#include "poem/images.h"

namespace poem {

// Takes uint8 RGB or grey images. Labelled images get one sub-folder per class that occurs. A file is named
// after the image's number in the set, counted from 0, with leading zeros: names sort in the set's order.
void write_folder(const ImageSet& images, const std::string& folder);

}  // namespace poem

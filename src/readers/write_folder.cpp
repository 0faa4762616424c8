#include "readers/write_folder.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "core/file.h"
#include "core/interrupts.h"
#include "core/progress.h"
#include "images/encode.h"
#include "poem/error.h"

namespace poem {
namespace {

// Without the sync of AtomicFile, which takes minutes for thousands of files. Call write_folder() inside
// fill_output_folder() to get all files or none.
void write_plain(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file) {
    throw Error(path, std::string("cannot write: ") + std::strerror(errno),
                "free some space or choose another place");
  }
}

}  // namespace

void write_folder(const ImageSet& images, const std::string& folder) {
  Progress bar("writing " + folder, images.size(), "images");
  std::set<std::string> made;
  for (int64_t i = 0; i < images.size(); ++i) {
    stop_if_interrupted();
    const std::string place =
        images.labelled() ? folder + "/" + images.class_names[images.labels[i].item<int64_t>()] : folder;
    if (made.insert(place).second) make_output_folder(place);
    write_plain(fmt::format("{}/{:06}.png", place, i),
                encode_png(images.pixels[images.row(i)].permute({1, 2, 0})));
    bar.advance(1);
  }
}

}  // namespace poem

// One door to every image source. The format is told by the path and the content:
//   world:SET[:COUNT[:SEED]], world2d:SET[:COUNT[:SEED]]   drawn, nothing on disk (world/world.h)
//   CIFAR .bin files or their folder, TinyImages' .bin, SVHN .mat, .npy, .npz (also folders of
//   downsampled-ImageNet batches), PNG sprites of CIFAR, JPEG, PNG, WebP and BMP images: one, a folder or a
//   .zip / .tar / .tar.gz / .tar.xz of them, .poem packed files
// and #KEY=VALUE behind it takes part of it (readers/source.h).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "poem/images.h"

namespace poem {

struct ReadOptions {
  int64_t size = 0;  // side of the square images wanted: shorter side resized, then centre crop; 0 keeps the
                     // source's own size, which must then be the same for all
  bool skip_bad = false;     // leave out images that cannot be decoded (each is named in a warning)
  std::string folder = "";   // where relative paths start; empty: the current folder
  bool every_class = false;  // images to train on: an Error if they have no labels, or a class folder has no
                             // image; without it, such a folder is named in a warning
};

ImageSet read_images(const std::string& source, const ReadOptions& options = {});

// What read_images() would return, but for the pixels, which are zeros that take no memory: for counts, shape
// and labels. Of NumPy's files only headers and labels are read.
ImageSet outline_images(const std::string& source, const ReadOptions& options = {});

// Throws what read_images() would throw before it reads the first image: a mistyped source, a path that is
// not there, an unknown format.
void check_source(const std::string& source, const ReadOptions& options = {});

// Whether the pixels stay in the file: a packed one, or TinyImages.
bool is_mapped(const std::string& source, const ReadOptions& options = {});

// Writes `source` as one packed file without ever holding all of it in memory; returns the number of images.
int64_t pack_images(const std::string& source, const std::string& out, const ReadOptions& options);

}  // namespace poem

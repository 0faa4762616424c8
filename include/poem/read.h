// Reads images from any source that poem understands.
//
//   ReadOptions options;
//   options.size = 32;
//   ImageSet photos = read_images("photos/", options);
//
// A source is one of these; the path and the content decide which:
//   - a JPEG, PNG, WebP or BMP image; a folder of images; a .zip, .tar, .tar.gz or .tar.xz of images
//   - CIFAR's .bin files or their folder, PNG sprites of CIFAR, TinyImages' .bin, SVHN's .mat,
//     MNIST's idx3-ubyte
//   - .npy and .npz arrays, also folders of downsampled ImageNet's batches
//   - packed files (.poem) and folders of them, which pack_images() writes; tars and packed files named
//     with braces: pool-{000..127}.tar
//   - world:SET[:COUNT[:SEED]] and world2d:SET[:COUNT[:SEED]], which are drawn and need no file
//   - what a registered reader accepts (poem/reader.h)
// #KEY=VALUE after it takes a part: "photos/#count=1000". docs/data.md lists the keys.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>

#include "poem/error.h"
#include "poem/images.h"

namespace poem {

struct ReadOptions {
  // The side of the images in pixels: the shorter side is resized to it, then the centre is cut out. 0 keeps
  // the source's own size, which must then be the same for all images.
  int64_t size = 0;
  bool skip_bad = false;    // leave out images that cannot be decoded, with a warning for each
  std::string folder = "";  // where relative paths start; empty: the current folder
  // true, for images to train on: images without labels are an Error, and so is a class folder without
  // images. false: images need no labels, and a class folder without images only gives a warning.
  bool every_class = false;
  // For one answer per image. visit_images() calls it for every image in order, with the image's path and, if
  // the image cannot be decoded, with the reason (otherwise null), before the sink gets the decoded images of
  // the same block. Bad images are then left out without an Error, and folders do not count as classes.
  std::function<void(const std::string& path, const Error* problem)> on_image = {};
  // With skip_bad: gets the Error of each image that is left out, instead of the log.
  std::function<void(const Error& problem)> on_bad = {};
  // For visit_images() without `size`: images may differ in size. Those of one block have the same.
  bool any_size = false;
  // With an even `size`: image files whose shorter side is below it are read at half of it, and each pixel is
  // repeated 2×2, so that nothing is invented.
  bool repeat_small = false;
};

ImageSet read_images(const std::string& source, const ReadOptions& options = {});

// Like read_images(), but all pixels are zeros that take no memory: for counts, shape and labels. Reads only
// headers where they are enough.
ImageSet outline_images(const std::string& source, const ReadOptions& options = {});

// Throws the Errors that read_images() would throw before it reads the first image: a mistyped source, a path
// that does not exist, an unknown format.
void check_source(const std::string& source, const ReadOptions& options = {});

// One image file in memory (JPEG, PNG, WebP or BMP, by its content): uint8 3×size×size, the same pixels as
// read_images() gives for the file. `where` names the image in the Error if it cannot be decoded.
// An image with more than `most_pixels` is an Error too; 0: only what the memory forbids.
at::Tensor read_image(const std::string& where, const std::string& bytes, int64_t size,
                      uint64_t most_pixels = 0);

// Whether the pixels stay in the file, because read_images() maps it: packed files and TinyImages.
bool is_mapped(const std::string& source, const ReadOptions& options = {});

// Whether every image is a file of its own, so that they may differ in size: an image, a folder, an archive.
bool has_image_files(const std::string& source, const ReadOptions& options = {});

struct PackOptions {
  uint64_t shard_bytes = 0;  // above 0: a folder of packed files (shards) of at most about so many bytes
  bool append = false;       // adds to the packed file or shards that are there
};

// Writes the images of `source` to a packed file `out` (NAME.poem), or to shards in a folder, block by block,
// and returns their number. Until all are written, `out` is what it was.
int64_t pack_images(const std::string& source, const std::string& out, const ReadOptions& options,
                    const PackOptions& packing = {});
// The same for a stream that is a tar of images, perhaps compressed with gzip or xz.
int64_t pack_stream(std::istream& stream, const std::string& out, const ReadOptions& options,
                    const PackOptions& packing = {});

}  // namespace poem

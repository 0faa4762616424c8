// A look at all images of a source, whatever their sizes: what there is, what cannot be read, and
// fingerprints to find duplicates by (images/duplicates.h). No pixels are kept.
//
//   const Survey test = survey("test", "photos/test");
//   test.sizes.size();                              // how many different sizes there are
//   test.unreadable.size();                         // how many files cannot be read
//   pick_images(test, {3, 17}, 64).at(3);           // the pixels of image 3, in a second reading
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "images/fingerprint.h"
#include "poem/error.h"
#include "poem/reader.h"

namespace poem {

struct Survey {
  std::string name;      // what the user calls it
  std::string source;    // what was read
  std::string folder;    // where relative paths start
  int64_t drawn_of = 0;  // the size of a world of which only a part was drawn; otherwise 0
  std::map<std::array<int64_t, 3>, int64_t> sizes;  // number of images by channels, height and width
  Labels labels;
  std::vector<Error> unreadable;
  std::vector<Fingerprint> marks;  // one per image that could be read

  int64_t count() const { return static_cast<int64_t>(marks.size()); }
  std::string title(int64_t image) const { return labels.names.title(image); }
  std::string class_name(int64_t image) const;  // empty if there are no labels
};

// Reads the images at their own size. Of a world, the first kMostDrawn images are drawn. Points are an Error.
constexpr int64_t kMostDrawn = 20000;
Survey survey(const std::string& name, const std::string& source, const std::string& folder = "");

// The pixels of these images, uint8 C×size×size.
std::map<int64_t, at::Tensor> pick_images(const Survey& survey, const std::set<int64_t>& images,
                                          int64_t size);

}  // namespace poem

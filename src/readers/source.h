// The notation for a source of images: its place, and which of its images to use.
//
//   PLACE[#exclude=FILE][#per_class=N][#count=N][#seed=S]
//
//   const Source source = parse_source("places365#count=10000", "/datasets");
//   source.place;       // "/datasets/places365"
//   take_part(set, source);
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/text.h"
#include "poem/error.h"
#include "poem/images.h"

namespace poem {

struct Source {
  std::string text;       // as written, for messages
  std::string place;      // path, or the name of a drawn set ("world:test")
  std::string exclude;    // file of the indices to leave out; empty: none
  int64_t per_class = 0;  // at most this many of each class, at random; 0: all
  int64_t count = 0;      // this many of the rest, at random; 0: all
  uint64_t seed = 0;      // of the random choice

  bool whole() const { return exclude.empty() && per_class == 0 && count == 0; }
};

// A source of data.outliers may also have #share=X: its share of each epoch's pool.
struct SharedSource {
  std::string text;             // the source without its share
  std::optional<double> share;  // above 0, at most 1
};
SharedSource split_share(const std::string& text, const std::string& folder);

// Relative paths start from `folder` (empty: the current one). A path that exists with its '#' is
// taken as a plain path. An unknown or repeated key, #share, or a value out of range, is an Error.
Source parse_source(const std::string& text, const std::string& folder);

// The value of `part` of a source as a whole number of at least `least`; anything else is an Error.
template <class Number>
Number whole_number(const std::string& source, const std::string& part, const std::string& text,
                    Number least) {
  const auto number = parse_number<Number>(text);
  if (number && *number >= least) return *number;
  throw Error(source, part + " is '" + text + "'",
              "it must be a whole number of at least " + std::to_string(least));
}

bool is_drawn(const std::string& source);  // one of the embedded worlds, not a path

// Keeps only the images that the source selects, in their order. Images that `exclude` leaves out stay in
// set.pixels, which may be a file too large to copy; a random choice is copied.
void take_part(ImageSet& set, const Source& source);

// The rows that a file of indices names, ascending, each once. Numbers in a text file, separated by white
// space, count from 1, as in the published list of TinyImages' CIFAR images; those of a .npy count from 0. A
// row outside 0 … rows−1 is an Error.
std::vector<int64_t> read_indices(const std::string& path, int64_t rows);

}  // namespace poem

// Sources that poem draws: world:SET[:COUNT[:SEED]] and world2d:SET[:COUNT[:SEED]].
//
//   ImageSet all = draw_source(parse_world("world:test:500"));
//   auto lazy = open_lazily("world:outliers:1000000", {});   // draws nothing yet
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "images/lazy_images.h"
#include "poem/read.h"

namespace poem {

struct WorldSource {
  bool flat;  // the two-dimensional world
  std::string set;
  int64_t count;
  uint64_t seed;
};

WorldSource parse_world(const std::string& source);
ImageSet draw_source(const WorldSource& world);

// Whether the smaller one is the beginning of the other.
bool same_images(const WorldSource& a, const WorldSource& b);

// The images that read_images() would draw, each drawn when it is first needed. Null if the source is not a
// whole world of images.
std::shared_ptr<LazyImages> open_lazily(const std::string& source, const ReadOptions& options);

}  // namespace poem

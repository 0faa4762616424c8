// Images in tars, such as the shards of WebDataset: an index of the tars is read at the start, and an image
// is decoded when a crop of it is cut.
//
//   auto pool = open_tars("pool-{000..127}.tar", options);   // null if the source is something else
//   pool->make(crops, count);
#pragma once
#include <memory>
#include <string>

#include "images/lazy_images.h"
#include "poem/read.h"

namespace poem {

// The images that read_images() would read, in the same order. Null unless the source is whole and all its
// archives are tars without compression, and null with options.skip_bad, because an image that is bad is
// known only when it is decoded. An image that cannot be decoded is an Error then. Keeps at most 256 MiB of
// images.
std::shared_ptr<LazyImages> open_tars(const std::string& source, const ReadOptions& options);

}  // namespace poem

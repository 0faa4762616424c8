// Images that are not a source of their own: files named one by one, and a tar stream.
//
//   visit_files({"a.jpg", "b/c.png"}, options, sink);
//   if (is_tar(start)) visit_tar(stream, start, options, sink);
#pragma once
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include "poem/reader.h"

namespace poem {

// Whether a source is one file that no reader but that of images accepts. Its content may still be anything,
// and it may not exist.
bool is_image_file(const std::string& source, const ReadOptions& options = {});

// The files in this order. One that cannot be opened counts as an image that cannot be decoded.
Labels visit_files(const std::vector<std::string>& paths, const ReadOptions& options, const Sink& sink);

// Whether a stream that starts with these bytes (at least 512 unless it is shorter) is a tar, perhaps
// compressed with gzip or xz.
bool is_tar(std::string_view start);

// The images of a tar stream, by their paths in it. `start` is what was read of the stream already. Tars may
// follow one another (cat a.tar b.tar). A stream that ends early is an Error.
Labels visit_tar(std::istream& stream, std::string start, const ReadOptions& options, const Sink& sink);

}  // namespace poem

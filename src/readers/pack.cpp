// Writes packed files: one, or shards; new, or added to those that are there.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <functional>
#include <istream>
#include <string>
#include <utility>

#include "poem/error.h"
#include "poem/read.h"
#include "readers/image_list.h"
#include "readers/packed.h"
#include "readers/reader_tools.h"
#include "readers/shards.h"
#include "readers/source.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

using Visit = std::function<Labels(const Sink& sink)>;

struct Input {
  std::string name, place;  // as written, and without the part that is taken of it
  Visit visit;
};

template <class Writer>
int64_t write(const Input& input, Writer& writer) {
  return writer.finish(input.visit([&](const at::Tensor& pixels) {
    if (pixels.scalar_type() != at::kByte)
      throw Error(input.name, "contains points, and only images can be packed", "use the source itself");
    writer.add(pixels);
  }));
}

// Either all images of a packed file have names or none. An image without a name is called by its number in
// its source.
void match_names(Labels& labels, int64_t count, const Input& input, const std::string& path, bool named) {
  if (named == !labels.names.empty()) return;
  ImageNames names;
  if (named)
    for (int64_t i = 0; i < count; ++i) names.add(fmt::format("{}:{}", input.place, labels.names.title(i)));
  else
    spdlog::warn("{}: the names of its images are left out, because the images of {} have no names",
                 input.name, path);
  labels.names = std::move(names);
}

// The same input, whose images must fit to those of a packed file.
Input fitting(const Input& input, const std::string& path) {
  const PackedOutline old = outline_packed(shard_paths(path)[0]);
  const auto visit = [input, path, old](const Sink& sink) {
    int64_t count = 0;
    Labels labels = input.visit([&](const at::Tensor& pixels) {
      count += pixels.size(0);
      if (pixels.sizes().slice(1).vec() != old.shape)
        throw Error(
            input.name,
            fmt::format("has images of {}×{}×{}, but those of {} are {}×{}×{}", pixels.size(1),
                        pixels.size(2), pixels.size(3), path, old.shape[0], old.shape[1], old.shape[2]),
            old.shape[1] == old.shape[2] ? fmt::format("use option size {}", old.shape[1])
                                         : "resize them first");
      sink(pixels);
    });
    if (labels.labels.defined() != old.labelled)
      throw Error(input.name,
                  fmt::format("has {}labels, but {} has {}", old.labelled ? "no " : "", path,
                              old.labelled ? "some" : "none"),
                  old.labelled ? "put the images into sub-folders, whose names become their classes"
                               : "append images that are not sorted into sub-folders");
    match_names(labels, count, input, path, old.named);
    return labels;
  };
  return {input.name, input.place, visit};
}

// Packed files that are packed again would get correct checksums of damaged images.
void refuse_damaged_source(const std::string& source, const ReadOptions& options) {
  const std::string place = parse_source(source, options.folder).place;
  if (!is_packed_source(place)) return;
  check_source(source, options);
  for (const std::string& path : shard_paths(place)) refuse_damage(path);
}

// A file cannot grow in place without a moment at which it is damaged. So the new images go into a second
// file, and both become one that replaces the first.
int64_t append_to_file(const Input& input, const std::string& path) {
  PackedWriter both(path);  // first: from now on no other process replaces what is there or adds to it
  refuse_damage(path);
  const std::string more = path + ".more";
  struct Remove {
    const std::string& path;
    ~Remove() {
      std::error_code ignored;
      fs::remove(path, ignored);
    }
  } const remove{more};
  PackedWriter second(more);
  const int64_t count = write(input, second);
  const ImageSet all = map_packed({path, more});
  visit_in_blocks(all, [&](const at::Tensor& pixels) { both.add(pixels); });
  both.finish({all.labels, all.class_names, all.names});
  return count;
}

int64_t pack(const Input& input, const std::string& out, const PackOptions& packing) {
  if (packing.append && !fs::exists(out))
    throw Error(out, "there is no such packed file", "leave out option append to make it");
  if (packing.append) {
    const Input fitted = fitting(input, out);
    if (!fs::is_directory(out)) return append_to_file(fitted, out);
    ShardedWriter writer(out, 0, /*append=*/true);
    return write(fitted, writer);
  }
  if (packing.shard_bytes > 0) {
    ShardedWriter writer(out, packing.shard_bytes, /*append=*/false);
    return write(input, writer);
  }
  if (!is_packed(out))
    throw Error(out, "a packed file needs the extension .poem", "call it " + out + ".poem");
  PackedWriter writer(out);
  return write(input, writer);
}

}  // namespace

int64_t pack_images(const std::string& source, const std::string& out, const ReadOptions& options,
                    const PackOptions& packing) {
  const auto visit = [&](const Sink& sink) {
    refuse_damaged_source(source, options);
    return visit_images(source, options, sink);
  };
  return pack({source, parse_source(source, options.folder).place, visit}, out, packing);
}

int64_t pack_stream(std::istream& stream, const std::string& out, const ReadOptions& options,
                    const PackOptions& packing) {
  std::string start(512, '\0');
  stream.read(start.data(), static_cast<std::streamsize>(start.size()));
  start.resize(static_cast<size_t>(stream.gcount()));
  if (!is_tar(start)) throw Error("standard input", "is not a tar of images", "write one: tar -c FOLDER | …");
  const auto visit = [&](const Sink& sink) { return visit_tar(stream, std::move(start), options, sink); };
  return pack({"standard input", "standard input", visit}, out, packing);
}

}  // namespace poem

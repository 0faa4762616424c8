#include "readers/world_source.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <vector>

#include "images/resize.h"
#include "poem/error.h"
#include "readers/source.h"
#include "world/draw.h"
#include "world/world.h"

namespace poem {
namespace {

using world::kSide;

int64_t default_count(const std::string& set) {
  if (set == "train") return 4000;
  if (set == "test") return 2000;
  return set == "outliers" || set == "procedural" ? 20000 : 1000;
}

at::Tensor draw_some(const WorldImages& world, const std::vector<int64_t>& images, int64_t* labels) {
  const auto count = static_cast<int64_t>(images.size());
  const at::Tensor pixels = at::empty({count, 3, kSide, kSide}, at::kByte);
  auto* out = pixels.data_ptr<uint8_t>();
  at::parallel_for(0, count, 8, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t label = world.draw(images[static_cast<size_t>(i)], out + i * 3 * kSide * kSide);
      if (labels != nullptr) labels[i] = label;
    }
  });
  return pixels;
}

}  // namespace

WorldSource parse_world(const std::string& source) {
  std::vector<std::string> parts;
  for (size_t start = 0;;) {
    const size_t colon = source.find(':', start);
    parts.push_back(source.substr(start, colon - start));
    if (colon == source.npos) break;
    start = colon + 1;
  }
  if (parts.size() > 4)
    throw Error(source, "has too many parts", "write " + parts[0] + ":SET[:COUNT[:SEED]]");
  if (parts[1].empty()) throw Error(source, "names no set", "write " + parts[0] + ":SET[:COUNT[:SEED]]");
  WorldSource world{parts[0] == "world2d", parts[1], default_count(parts[1]), 0};
  if (parts.size() > 2) world.count = whole_number<int64_t>(source, "COUNT", parts[2], 1);
  if (parts.size() > 3) world.seed = whole_number<uint64_t>(source, "SEED", parts[3], 0);
  return world;
}

ImageSet draw_source(const WorldSource& world) {
  return world.flat ? draw_world_2d(world.set, world.count, world.seed)
                    : draw_world(world.set, world.count, world.seed);
}

bool same_images(const WorldSource& a, const WorldSource& b) {
  return a.flat == b.flat && a.set == b.set && a.seed == b.seed;
}

std::shared_ptr<LazyImages> open_lazily(const std::string& text, const ReadOptions& options) {
  const Source source = parse_source(text, options.folder);
  if (!is_drawn(source.place) || !source.whole()) return nullptr;
  const WorldSource from = parse_world(source.place);
  if (from.flat) return nullptr;
  const WorldImages world(from.set, from.count, from.seed);
  const int64_t side = options.size > 0 ? options.size : kSide;
  return std::make_shared<LazyImages>(text, std::vector<int64_t>{world.size(), 3, side, side},
                                      world.class_names(),
                                      [world, side](const std::vector<int64_t>& images, int64_t* labels) {
                                        return fit(draw_some(world, images, labels), side).contiguous();
                                      });
}

}  // namespace poem

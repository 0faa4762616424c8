// A world that is drawn on demand: opening a million images and drawing some of them, beside drawing as many.
#include <ATen/ATen.h>

#include "compare.h"
#include "images/mixture.h"
#include "images/pool.h"
#include "readers/world_source.h"
#include "world/world.h"

namespace poem::bench {

POEM_BENCH(lazy) {
  constexpr int64_t kImages = 2000;
  compare(
      "opening world:outliers:1000000 and drawing 2,000 of it / drawing world:outliers:2000",
      [&] {
        const auto lazy = open_lazily("world:outliers:1000000", {});
        lazy->make(draw_pool(lazy->images().size(), kImages, 0, 0).data(), kImages);
        keep(lazy);
      },
      [&] { keep(draw_world("outliers", kImages, 0)); }, 1.25);
}

}  // namespace poem::bench

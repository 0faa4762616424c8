#include "images/pool.h"

#include <fmt/format.h>

#include "poem/error.h"
#include "poem/random.h"

namespace poem {

std::vector<Crop> draw_pool(int64_t source_size, int64_t pool_size, uint64_t seed, int64_t epoch) {
  if (source_size < 1) throw Error("outliers", "the source contains no images", "name a source with images");
  if (pool_size < 1) throw Error("pool", fmt::format("its size is {}", pool_size), "use at least 1");
  Stream stream(seed, "pool", epoch);
  const int64_t each = pool_size / source_size;
  const auto once_more = sample(source_size, pool_size % source_size, stream);

  std::vector<Crop> pool;
  pool.reserve(pool_size);
  if (each == 0) {
    for (int64_t image : once_more) pool.push_back({image, stream.bits64()});
    return pool;
  }
  auto extra = once_more.begin();
  for (int64_t image = 0; image < source_size; ++image) {
    int64_t copies = each;
    if (extra != once_more.end() && *extra == image) {
      ++copies;
      ++extra;
    }
    for (int64_t i = 0; i < copies; ++i) pool.push_back({image, stream.bits64()});
  }
  return pool;
}

}  // namespace poem

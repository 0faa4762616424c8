#include "images/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "poem/error.h"
#include "poem/random.h"

namespace poem {

std::vector<Crop> draw_pool(int64_t source_size, int64_t pool_size, uint64_t seed, int64_t epoch,
                            size_t part) {
  if (source_size < 1) throw Error("outliers", "the source contains no images", "name a source with images");
  if (pool_size < 1) throw Error("pool", fmt::format("its size is {}", pool_size), "use at least 1");
  Stream stream(seed, "pool", epoch, part);
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

// Largest remainders: each part gets ⌊share · S⌋, and those with the largest rests get one more.
std::vector<int64_t> pool_counts(const Mixture& source, int64_t pool_size) {
  if (source.empty()) return {};
  std::vector<int64_t> counts;
  std::vector<double> rests;
  for (const MixturePart& part : source.parts()) {
    const double exact = part.share * static_cast<double>(pool_size);
    counts.push_back(static_cast<int64_t>(std::floor(exact)));
    rests.push_back(exact - std::floor(exact));
  }
  std::vector<size_t> order(counts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return rests[a] > rests[b]; });
  const int64_t left = pool_size - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (int64_t i = 0; i < left; ++i) ++counts[order[static_cast<size_t>(i) % order.size()]];
  return counts;
}

std::vector<Crop> draw_pool(const Mixture& source, int64_t pool_size, uint64_t seed, int64_t epoch) {
  if (source.parts().size() == 1) return draw_pool(source.size(), pool_size, seed, epoch);
  const std::vector<int64_t> counts = pool_counts(source, pool_size);
  std::vector<Crop> pool;
  int64_t first = 0;  // image of the part
  for (size_t part = 0; part < counts.size(); ++part) {
    const int64_t size = source.parts()[part].images.size();
    if (counts[part] > 0) {
      for (const Crop& crop : draw_pool(size, counts[part], seed, epoch, part))
        pool.push_back({first + crop.image, crop.seed});
    }
    first += size;
  }
  return pool;
}

}  // namespace poem

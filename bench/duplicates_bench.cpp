// Duplicates: the search that poem train makes beside one look at all bytes, and that of poem data check
// beside the comparison of all pairs.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <functional>
#include <string_view>
#include <vector>

#include "compare.h"
#include "images/copies.h"
#include "images/duplicates.h"
#include "poem/random.h"

namespace poem::bench {
namespace {

ImageSet random_images(int64_t count) {
  return {"images", at::randint(256, {count, 3, 32, 32}, at::kByte), {}, {}};
}

std::vector<Fingerprint> random_marks(int64_t count) {
  std::vector<Fingerprint> marks(static_cast<size_t>(count));
  Stream stream(0, "marks");
  for (Fingerprint& mark : marks) {
    mark.pixels = stream.bits64();
    mark.signs = stream.bits64();
    for (size_t i = 0; i < mark.waves.size(); ++i) mark.waves[i] = mark.signs >> i & 1 ? 16 : -16;
  }
  return marks;
}

}  // namespace

POEM_BENCH(duplicates) {
  const ImageSet pool = random_images(20000), test = random_images(1000);
  const auto* bytes = static_cast<const char*>(pool.pixels.data_ptr());
  compare(
      "searching 20,000 images for 1,000 others / hashing them",
      [&] { keep(CopyFinder({&test}).search(pool)); },
      [&] {
        keep(std::hash<std::string_view>()({bytes, pool.pixels.nbytes()}));
      },
      3);
  const std::vector<MarkedSet> sets = {{random_marks(100000), {}}};
  const std::vector<Fingerprint>& marks = sets[0].marks;
  compare(
      "near duplicates among 100,000 images / comparing all pairs of their signs",
      [&] { keep(find_duplicates(sets, 1)); },
      [&] {
        std::atomic<int64_t> near = 0;
        at::parallel_for(0, static_cast<int64_t>(marks.size()), 100, [&](int64_t begin, int64_t end) {
          int64_t found = 0;
          for (int64_t i = begin; i < end; ++i) {
            for (size_t j = 0; j < marks.size() / 2; ++j)  // as many comparisons as there are pairs
              found += count_ones(marks[static_cast<size_t>(i)].signs ^ marks[j].signs) <= kMostSigns;
          }
          near += found;
        });
        keep(near);
      },
      0.5, /*repeats=*/1);
}

}  // namespace poem::bench

#include "mining/top_n.h"

#include <algorithm>

#include "compare.h"
#include "poem/random.h"

namespace poem::bench {

POEM_BENCH(select) {
  constexpr int64_t kPool = 400000, kChosen = 50000, kBlock = 2000;
  Stream stream(1, "bench");
  std::vector<float> scores(kPool);
  for (float& x : scores) x = static_cast<float>(-std::abs(stream.normal()));
  compare(
      "choosing 50,000 of 400,000 scores / std::sort of them",
      [&] {
        TopN best(kChosen);
        for (int64_t i = 0; i < kPool; i += kBlock) best.offer(&scores[i], kBlock, i);
        keep(best.take());
      },
      [&] {
        std::vector<float> sorted(scores);
        std::sort(sorted.begin(), sorted.end());
        keep(sorted);
      },
      0.2);
}

}  // namespace poem::bench

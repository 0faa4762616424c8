#include "poem/metrics.h"

#include <algorithm>

#include "compare.h"
#include "poem/random.h"

namespace poem::bench {

POEM_BENCH(metrics) {
  constexpr size_t kCount = 1000000;
  Stream stream(1, "bench");
  std::vector<double> id(kCount), ood(kCount);
  for (double& x : id) x = stream.normal() + 1;
  for (double& x : ood) x = stream.normal();
  std::vector<double> both(id);
  both.insert(both.end(), ood.begin(), ood.end());
  compare(
      "all metrics of 1M ID + 1M OOD / std::sort of the 2M", [&] { keep(ood_metrics(id, ood)); },
      [&] {
        std::vector<double> sorted(both);
        std::sort(sorted.begin(), sorted.end());
        keep(sorted);
      },
      2.0);
}

}  // namespace poem::bench

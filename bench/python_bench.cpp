// poem.mine in Python beside the call of the library: what the way through Python costs. PYTHON, PYTHON_PATH
// and SCRIPT come from CMakeLists.txt.
#include <ATen/ATen.h>

#include "compare.h"
#include "poem/mine_features.h"
#include "stepper.h"

namespace poem::bench {

POEM_BENCH(python) {
  constexpr int64_t kPool = 400000, kRows = 50000, kFeatures = 342;  // as in python_mine.py
  const at::Tensor id = at::randn({kRows, kFeatures}), outliers = at::randn({kRows, kFeatures}) + 0.5,
                   pool = at::randn({kPool, kFeatures});
  Stepper python({PYTHON, SCRIPT}, {"PYTHONPATH", PYTHON_PATH});
  compare(
      "mining 50,000 of 400,000 x 342 features: Python / C++", [&] { python.step(); },
      [&] { keep(mine_features(id, outliers, pool, kRows, 1, {})); }, 1.05);
}

}  // namespace poem::bench

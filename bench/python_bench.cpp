// What Python costs: poem.mine beside the call of the library, and a script with PyTorch beside the library's
// predictions. PYTHON, PYTHON_PATH and SCRIPTS come from CMakeLists.txt.
#include <ATen/ATen.h>

#include "compare.h"
#include "detect/predict.h"
#include "photos.h"
#include "poem/mine_features.h"
#include "stepper.h"

namespace poem::bench {

POEM_BENCH(python) {
  constexpr int64_t kPool = 400000, kRows = 50000, kFeatures = 342;  // as in python_mine.py
  const at::Tensor id = at::randn({kRows, kFeatures}), outliers = at::randn({kRows, kFeatures}) + 0.5,
                   pool = at::randn({kPool, kFeatures});
  Stepper python({PYTHON, SCRIPTS "/python_mine.py"}, {"PYTHONPATH", PYTHON_PATH});
  compare(
      "mining 50,000 of 400,000 x 342 features: Python / C++", [&] { python.step(); },
      [&] { keep(mine_features(id, outliers, pool, kRows, 1, {})); }, 1.05);
}

POEM_BENCH(python_predict) {
  constexpr int64_t kImages = 10000, kSide = 64;
  const TemporaryFolder folder;
  const Detector detector = photo_detector(kSide);
  write_photos(folder, kImages, kSide);
  Stepper script({PYTHON, SCRIPTS "/python_predict.py", folder.path()});
  compare(
      "predicting 10,000 JPEGs of 64×64: poem / a script with PyTorch and PIL",
      [&] { predict(detector, {folder.path()}, [](const Prediction& p, const at::Tensor&) { keep(p); }); },
      [&] { script.step(); }, 0.5, 1);
}

}  // namespace poem::bench

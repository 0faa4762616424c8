#include <ATen/ATen.h>

#include <algorithm>

#include "compare.h"
#include "detect/posthoc.h"
#include "poem/random.h"

namespace poem::bench {

// Each side takes ten to twenty seconds, so it is timed once.
POEM_BENCH(scores) {
  constexpr int64_t kTrain = 50000, kRows = 50000, kWidth = 342, kClasses = 10, kBlock = 2048;
  Stream stream(1, "bench");
  const auto random = [&](at::IntArrayRef sizes) {
    at::Tensor t = at::empty(sizes);
    float* x = t.data_ptr<float>();
    for (int64_t i = 0; i < t.numel(); ++i) x[i] = static_cast<float>(stream.uniform());
    return t;
  };
  FeatureData data;
  data.train = random({kTrain, kWidth});
  data.labels = at::arange(kTrain, at::kLong).remainder(kClasses);
  data.head = {random({kClasses, kWidth}), random({kClasses})};
  data.id = random({kRows, kWidth});
  const auto scores = fit_scores({"msp", "maxlogit", "energy", "mds", "rmds", "knn", "react", "dice", "ash",
                                  "scale", "vim", "gen", "fdbd"},
                                 data);
  at::Tensor product = at::empty({kBlock, kBlock});
  compare(
      "13 scores of 50,000 features, 50,000 trained on / KNN's product",
      [&] { keep(score_features(scores, data.head, data.id)); },
      [&] {
        for (const at::Tensor& rows : data.id.split(kBlock)) {
          for (const at::Tensor& known : data.train.split(kBlock)) {
            at::Tensor out = product.narrow(0, 0, rows.size(0)).narrow(1, 0, known.size(0));
            keep(at::mm_out(out, rows, known.t()));
          }
        }
      },
      3, 1);
}

}  // namespace poem::bench

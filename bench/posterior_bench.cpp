#include "poem/posterior.h"

#include <ATen/ATen.h>

#include "compare.h"
#include "poem/targets.h"
#ifdef POEM_HAS_CBLAS
#include <cblas.h>
#endif

namespace poem::bench {

POEM_BENCH(posterior) {
  constexpr int64_t kRows = 400000, kWidth = 342;
  Stream stream(1, "bench");
  at::Tensor features = at::empty({kRows, kWidth}, at::kFloat);
  float* x = features.data_ptr<float>();
  for (int64_t i = 0; i < features.numel(); ++i) x[i] = static_cast<float>(stream.uniform());
  const at::Tensor targets = target_logits({}, 1, 0, Side::kOutlier, 0, kRows);
  const at::Tensor doubles = features.to(at::kDouble);
  at::Tensor gram = at::zeros({kWidth, kWidth}, at::kDouble);
  compare(
      "posterior from 400,000 × 342 features, one draw / dsyrk",
      [&] {
        Statistics statistics(kWidth);
        statistics.add(features, targets);
        keep(Posterior(statistics, {}).draw(stream));
      },
      [&] {
#ifdef POEM_HAS_CBLAS
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, kWidth, kRows, 1.0, doubles.data_ptr<double>(),
                    kWidth, 0.0, gram.data_ptr<double>(), kWidth);
#else
        at::mm_out(gram, doubles.t(), doubles);
#endif
      },
      1.5);
}

}  // namespace poem::bench

// A train step of the paper's network: what channels last and poem's runtime settings gain.
#include "compare.h"
#include "stepper.h"

namespace poem::bench {

POEM_BENCH(densenet) {
  Stepper ours({beside("train_step"), "ours"}), baseline({beside("train_step"), "baseline"});
  compare(
      "DenseNet-BC-100-12, train step of 128", [&] { ours.step(); }, [&] { baseline.step(); }, 0.45);
}

}  // namespace poem::bench

// Runs a study: trains the networks that are missing, several at a time, and scores every cell.
//
//   DIR/study.yaml          the study file as it was; the mark of a folder that a study may write into
//   DIR/runs/NETWORK/       a run folder each (docs/run-folder.md)
//   DIR/logs/NETWORK.log    what its training printed
//   DIR/cells/NETWORK/      a score's results on the test sets, as JSON
//   DIR/results.json, results.csv, table.md, table.tex, curves.csv
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "study/study.h"
#include "study/study_results.h"

namespace poem {

struct StudyOptions {
  std::string out;
  size_t jobs = 1;                   // trainings at the same time
  bool force = false;                // throw away the runs and cells that are there
  std::vector<std::string> program;  // poem and its common options, for the trainings
  at::Device device = at::kCPU;      // to score with
  std::function<void()>
      published;  // called whenever results.json and the tables are written, if there is one
};

// What is finished is kept. Whatever a cell lacks is an Error before the first training starts; a folder of
// something else is never touched, nor one that another process works in. A training that fails costs its own
// cells only, which the results name. The files above are written after every network, so Ctrl-C, which
// throws Interrupted, leaves what there is; another call goes on from there.
StudyResults run_study(const Study& study, const StudyOptions& options);

}  // namespace poem

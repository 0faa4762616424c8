// Runs a study: trains the networks that are missing, several at a time, and scores every cell.
//
//   DIR/study.yaml          a copy of the study file; it marks the folder as one that a study may write into
//   DIR/runs/NETWORK/       one run folder per network (docs/run-folder.md)
//   DIR/logs/NETWORK.log    what the training printed
//   DIR/cells/NETWORK/      one JSON file per score: its results on the test sets
//   DIR/claims/             while it runs: which process does what (study/claims.h)
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
  bool force = false;                // delete existing runs and cells
  std::vector<std::string> program;  // poem and its common options, for the trainings
  at::Device device = at::kCPU;      // to score with
  std::function<void()> published;   // if set, called whenever results.json and the tables were written
};

// Keeps what is finished. Anything that a cell lacks is an Error before the first training starts. A folder
// that no study made, or that another study uses, is an Error too. Processes that run the same study in the
// same folder share its networks, and all return the whole results. A training that fails costs only its own
// cells, which the results name. The files above are written after every network. Ctrl-C throws Interrupted,
// and a later call continues from the files.
StudyResults run_study(const Study& study, const StudyOptions& options);

}  // namespace poem

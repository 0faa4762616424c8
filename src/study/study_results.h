// What a study measured: the figures of every cell, their mean and deviation over seeds, and files of both.
//
//   const Summary fpr95 = summarise(results, setting, method, study_column("fpr95"));
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "study/study.h"

namespace poem {

struct CellResult {
  size_t setting = 0, method = 0;
  int64_t seed = 0;
  std::string run, score;
  double seconds = 0;              // of training, without evaluation
  nlohmann::ordered_json results;  // as in results.json of a run
  std::vector<std::pair<int64_t, nlohmann::ordered_json>>
      curve;  // (epoch, its results) if the study has curves
};

struct MissingCell {
  size_t setting, method;
  int64_t seed;
  std::string failure;  // why it failed; empty if it is not finished
};

struct StudyResults {
  std::vector<CellResult> cells;
  std::vector<MissingCell> missing;
};

struct Summary {
  std::optional<double> mean;       // in percent or minutes; empty if the method has no such figure
  std::optional<double> deviation;  // of the sample (n − 1); empty for one seed
  size_t seeds = 0;                 // finished seeds
};
Summary summarise(const std::vector<double>& values);
Summary summarise(const std::vector<CellResult>& results, size_t setting, size_t method,
                  const StudyColumn& column);

// The paper's figure for this method and column, if the study file gives one.
std::optional<double> paper_figure(const Study& study, size_t setting, size_t method,
                                   const StudyColumn& column);

// A cell's figure in percent or minutes; empty if the method has no such figure.
std::optional<double> column_value(const CellResult& cell, const StudyColumn& column);

// Every cell with all figures as shares of 1, then the missing cells, then the figures of the table as the
// table prints them.
std::string to_json_text(const Study& study, const StudyResults& results);

// What results.json in a study's folder says. Of the study itself that is only the title, seeds, columns,
// and names and paper's figures of the rows. A damaged file, or one of another version, is an Error.
struct StudyRecord {
  Study study;
  StudyResults results;
};
StudyRecord read_study_results(const std::string& path);

// One line per cell and OOD set, then one with the cell's mean over the sets; shares of 1.
std::string to_csv(const Study& study, const std::vector<CellResult>& results);

// The same lines for every epoch that was evaluated.
std::string curves_csv(const Study& study, const std::vector<CellResult>& results);

}  // namespace poem

// What a study measured: the figures of every cell, their mean and deviation over seeds, and both as files.
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
  size_t setting, method;
  int64_t seed;
  std::string run, score;
  double seconds;                  // of training, without evaluation
  nlohmann::ordered_json results;  // as results.json of a run has them
  std::vector<std::pair<int64_t, nlohmann::ordered_json>>
      curve;  // (epoch, the same) where a study has curves
};

struct MissingCell {
  size_t setting, method;
  int64_t seed;
  std::string failure;  // why; empty: it is not finished
};

struct StudyResults {
  std::vector<CellResult> cells;
  std::vector<MissingCell> missing;
};

struct Summary {
  std::optional<double> mean;       // in percent or minutes; empty where the method has no such figure
  std::optional<double> deviation;  // of the sample (n − 1); empty for one seed
  size_t seeds = 0;                 // that are finished
};
Summary summarise(const std::vector<double>& values);
Summary summarise(const std::vector<CellResult>& results, size_t setting, size_t method,
                  const StudyColumn& column);

// What the paper has in that place, where the study file says it.
std::optional<double> paper_figure(const Study& study, size_t setting, size_t method,
                                   const StudyColumn& column);

// A cell's figure: percent, or minutes; empty where the method has none.
std::optional<double> column_value(const CellResult& cell, const StudyColumn& column);

// Every cell with all figures as shares of 1, the cells that are missing, then the table's figures as it
// prints them.
std::string to_json_text(const Study& study, const StudyResults& results);

// What results.json of a study's folder tells: of the study only title, seeds, columns and the names and
// paper's figures of its rows. One that is damaged or of another version is an Error.
struct StudyRecord {
  Study study;
  StudyResults results;
};
StudyRecord read_study_results(const std::string& path);

// One line a cell and set, then its mean over sets; shares of 1.
std::string to_csv(const Study& study, const std::vector<CellResult>& results);

// The same for every epoch that was evaluated.
std::string curves_csv(const Study& study, const std::vector<CellResult>& results);

}  // namespace poem

// The files of a run (docs/run-folder.md): the one place that knows their names.
//
//   const RunFolder folder("runs/demo");
//   if (folder.finished()) Detector::load(folder.detector);
#pragma once
#include <string>

namespace poem {

struct RunFolder {
  static constexpr const char* kConfig = "config.yaml";  // a folder that has it is a run
  static constexpr const char* kMetrics = "metrics.jsonl";
  static constexpr const char* kCheckpoint = "checkpoint/state.safetensors";
  static constexpr const char* kDetector = "detector.safetensors";  // a run that has it is finished
  static constexpr const char* kResults = "results.json";
  static constexpr const char* kTable = "results.csv";
  static constexpr const char* kScores = "scores";
  static constexpr const char* kVerdicts = "scores.csv";
  static constexpr const char* kGallery = "gallery";
  static constexpr const char* kReport = "report.html";

  explicit RunFolder(const std::string& path);

  bool is_run() const;
  bool finished() const;

  // Removes what finishing a run leaves, the detector last: a kill in between leaves a run that still counts
  // as finished, so that the next call removes the rest.
  void remove_results() const;

  std::string root;
  std::string config, metrics, checkpoint, detector, results, table, scores, verdicts, gallery, report;
};

}  // namespace poem

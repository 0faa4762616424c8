#include "train/run_folder.h"

#include <filesystem>
#include <set>

#include "core/file.h"
#include "core/lock.h"
#include "core/text.h"
#include "poem/error.h"
#include "train/gallery.h"
#include "train/run_checks.h"

namespace poem {

namespace fs = std::filesystem;

RunFolder::RunFolder(const std::string& path)
    : root(path),
      config(path + "/" + kConfig),
      metrics(path + "/" + kMetrics),
      checkpoint(path + "/" + kCheckpoint),
      detector(path + "/" + kDetector),
      results(path + "/" + kResults),
      table(path + "/" + kTable),
      scores(path + "/" + kScores),
      verdicts(path + "/" + kVerdicts),
      gallery(path + "/" + kGallery),
      report(path + "/" + kReport) {}

bool RunFolder::is_run() const { return fs::exists(config); }

bool RunFolder::finished() const { return fs::exists(detector); }

void RunFolder::remove_results() const {
  for (const std::string& path : {results, table, scores, verdicts}) fs::remove_all(path);
  remove_test_sheets(gallery);
  fs::remove(detector);
}

// Only a run may be replaced, and only if its folder contains nothing else.
void check_run_folder(const std::string& path, bool force) {
  if (!force && RunFolder(path).is_run()) {
    throw Error(path, "exists already",
                "to continue it, resume the run " + shell_quoted(path) +
                    "; or choose another folder, or replace it with option force");
  }
  check_output_folder(path, force, RunFolder::kConfig);
  if (!fs::exists(path)) return;
  const std::string checkpoints = fs::path(RunFolder::kCheckpoint).parent_path().string();
  const std::set<std::string> own = {RunFolder::kConfig,   RunFolder::kMetrics,  checkpoints,
                                     RunFolder::kDetector, RunFolder::kResults,  RunFolder::kTable,
                                     RunFolder::kScores,   RunFolder::kVerdicts, RunFolder::kGallery,
                                     RunFolder::kReport,   Lock::kFile};
  for (const auto& entry : fs::directory_iterator(path)) {
    std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".tmp") name = entry.path().stem().string();  // a kill left it
    if (own.count(name) > 0 || name.rfind("events.out.tfevents.", 0) == 0) continue;
    throw Error(path, "contains " + name + ", which poem did not create, so it is never replaced",
                "move that away, or choose another folder");
  }
}

}  // namespace poem

// metrics.jsonl, one line per epoch, and the same figures for TensorBoard.
//
//   MetricsLog log(folder, trainer.epoch());
//   log.add(to_json(report));
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "train/run_folder.h"

namespace poem {

class MetricsLog {
 public:
  // Keeps the lines of the first `epochs` epochs, which the checkpoint has. A kill may have left later lines,
  // or half a line.
  MetricsLog(const RunFolder& folder, int64_t epochs);

  void add(const nlohmann::ordered_json& line);

  bool has_results() const;  // of the last epoch; also true before the first one
  void set_results(const nlohmann::ordered_json& results);

 private:
  void read(int64_t epochs);
  std::string text() const;
  void write() const;

  const RunFolder folder_;
  std::vector<nlohmann::ordered_json> lines_;
};

}  // namespace poem

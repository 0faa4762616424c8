#include "detect/scores_csv.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/scores_file.h"
#include "core/text.h"

namespace poem {
namespace {

std::string class_of(const ImageSet& images, int64_t image) {
  return images.labelled() ? images.class_names[images.labels[image].item<int64_t>()] : "";
}

}  // namespace

std::string scores_csv(const std::vector<ScoredSet>& sets, const Detector& detector,
                       const std::vector<std::shared_ptr<Score>>& scores, const TestData& test) {
  const auto own =
      static_cast<size_t>(std::find(scores.begin(), scores.end(), detector.score) - scores.begin());
  const bool judged = detector.threshold && own < scores.size();
  std::string csv(kScoresColumns);
  for (const auto& score : scores) csv += "," + score->name();
  csv += "\n";
  for (size_t s = 0; s < sets.size(); ++s) {
    const ScoredSet& set = sets[s];
    const ImageSet& images = s == 0 ? test.id : test.ood[s - 1].images;
    for (int64_t i = 0; i < images.size(); ++i) {
      csv += fmt::format("{},{},{},", csv_field(set.name), csv_field(images.title(i)),
                         csv_field(class_of(images, i)));
      if (set.predicted.defined()) csv += csv_field(detector.class_names[set.predicted[i].item<int64_t>()]);
      csv += !judged ? "," : set.scores[own][i] >= *detector.threshold ? ",known" : ",unknown";
      for (const std::vector<float>& values : set.scores) csv += fmt::format(",{}", values[i]);
      csv += "\n";
    }
  }
  return csv;
}

}  // namespace poem

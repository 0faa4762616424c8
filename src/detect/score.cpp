#include "detect/score.h"

#include <ATen/ATen.h>

#include "core/error.h"
#include "core/text.h"
#include "objective/objective.h"

namespace poem {
namespace {

at::Tensor energy_score(const at::Tensor& logits) { return -energy(logits); }
at::Tensor msp_score(const at::Tensor& logits) { return std::get<0>(at::softmax(logits, 1).max(1)); }

const std::vector<std::pair<std::string, at::Tensor (*)(const at::Tensor&)>> kScores = {
    {"energy", energy_score},
    {"msp", msp_score},
};

}  // namespace

std::vector<std::string> score_names() {
  std::vector<std::string> names;
  for (const auto& [name, score] : kScores) names.push_back(name);
  return names;
}

at::Tensor score_logits(const std::string& name, const at::Tensor& logits) {
  for (const auto& [known, score] : kScores) {
    if (known == name) return score(logits);
  }
  throw Error("score", "is '" + name + "'", "known: " + listed(score_names()));
}

}  // namespace poem

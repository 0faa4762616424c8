#include "detect/score.h"

#include <ATen/ATen.h>

#include "core/registry.h"
#include "objective/objective.h"

namespace poem {
namespace {

at::Tensor energy_score(const at::Tensor& logits) { return -energy(logits); }
at::Tensor msp_score(const at::Tensor& logits) { return std::get<0>(at::softmax(logits, 1).max(1)); }

const Registry<at::Tensor (*)(const at::Tensor&)> kScores("score", {
                                                                       {"energy", energy_score},
                                                                       {"msp", msp_score},
                                                                   });

}  // namespace

void check_score(const std::string& name) { kScores.find(name); }

std::vector<std::string> score_names() { return kScores.names(); }

at::Tensor score_logits(const std::string& name, const at::Tensor& logits) {
  return kScores.find(name)(logits);
}

std::vector<float> to_floats(const at::Tensor& scores) {
  const at::Tensor values = scores.to(at::kFloat).contiguous();
  return {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()};
}

}  // namespace poem

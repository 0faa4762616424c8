// What ranks test inputs: higher means ID.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace poem {

// One score a row of logits (n×K). An unknown name is an Error that lists the known ones.
at::Tensor score_logits(const std::string& name, const at::Tensor& logits);
std::vector<std::string> score_names();
void check_score(const std::string& name);  // the same Error

// A tensor of scores as the metrics take them.
std::vector<float> to_floats(const at::Tensor& scores);

}  // namespace poem

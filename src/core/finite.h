// Refuses features that are not finite: one of them would spoil every result without a word.
//
//   check_finite("pool.npy", features, "remove the row or mend what computed it");
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace poem {

// An Error that names the first row and feature of n×m floats that is not finite, if there is one.
void check_finite(const std::string& where, const at::Tensor& features, const std::string& remedy);

[[noreturn]] void fail_not_finite(const std::string& where, int64_t row, int64_t feature, double value,
                                  const std::string& remedy);

}  // namespace poem

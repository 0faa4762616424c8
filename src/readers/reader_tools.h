// What several readers need.
//
//   if (has_extension(path, ".npy")) visit_in_blocks(pixels, sink);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poem/reader.h"

namespace poem {

// Passes `pixels` (uint8 n×C×H×W, any strides) on in contiguous blocks of a few MiB, with a progress bar.
// Stops if the program was interrupted.
void visit_in_blocks(const at::Tensor& pixels, const Sink& sink);
void visit_in_blocks(const ImageSet& images, const Sink& sink);

std::vector<std::string> number_names(int64_t count, int64_t first = 0);  // "0", "1", …

// The lines of a file of class names, or plain numbers if there is no such file. Any other number of names
// than `count` is an Error.
std::vector<std::string> read_class_names(const std::string& path, int64_t count);

// Throws an Error that names the first label outside low … high.
void check_labels(const std::string& where, const at::Tensor& labels, int64_t low, int64_t high);

// The number of a file named prefix + digits + suffix; none if it has another name.
std::optional<int64_t> number_in(const std::string& name, const std::string& prefix,
                                 const std::string& suffix);

// The files of `folder` named prefix + digits + suffix, by ascending number.
std::vector<std::string> numbered_files(const std::string& folder, const std::string& prefix,
                                        const std::string& suffix);

bool has_extension(const std::string& path, const std::string& extension);  // any case, with its dot

}  // namespace poem

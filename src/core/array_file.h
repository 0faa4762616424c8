// One array from a file that may hold several.
//
//   at::Tensor features = read_array("photos.npz", "features");   // the array of this name
//   at::Tensor same = read_array("photos.npy", "features");       // a .npy has no other
#pragma once
#include <ATen/core/Tensor.h>

#include <string>

#include "core/npy.h"

namespace poem {

// The array with its header read and its elements not. An .npz without this array is a poem::Error that lists
// those it has; otherwise as open_npy() and open_npz().
StoredArray open_array(const std::string& path, const std::string& name);

at::Tensor read_array(const std::string& path, const std::string& name);

}  // namespace poem

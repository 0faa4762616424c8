// State dicts as PyTorch 1.6 and later save them: torch.save(model.state_dict(), FILE). The file is read, and
// nothing in it is executed (core/pickle.h).
//
//   const TensorFile file = read_state_dict("resnet18.pth");
//   file.tensor("conv1.weight");
#pragma once
#include <string>

#include "core/safetensors.h"

namespace poem {

// The tensors of a dict, or of the dict under "state_dict", "model_state_dict", "model" or "net" in it, on
// the CPU with the type and the strides that they were saved with. Tensors may share memory. An Error for a
// file that contains anything else than dicts of tensors, numbers and texts, such as a whole module.
TensorFile read_state_dict(const std::string& path);

}  // namespace poem

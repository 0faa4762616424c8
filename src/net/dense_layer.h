// One layer of a DenseNet-BC block: norm1, ReLU, 1×1 convolution, norm2, ReLU, 3×3 convolution.
#pragma once
#include "net/layers.h"

namespace poem {

struct DenseLayer {
  BatchNorm norm1, norm2;
  Conv conv1, conv2;
};

}  // namespace poem

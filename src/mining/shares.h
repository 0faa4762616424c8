// What pool and mined set consist of: the shares of classes and of sources.
//
//   for (const ClassShare& share : source_shares(outliers, pool, mined)) print(share.name, share.mined);
#pragma once
#include <vector>

#include "images/mixture.h"
#include "poem/mining.h"

namespace poem {

// As class_shares() of an image set. Images of a part without labels belong to no class.
std::vector<ClassShare> class_shares(const Mixture& outliers, const std::vector<Crop>& pool,
                                     const std::vector<Crop>& mined);

// One per part, in their order.
std::vector<ClassShare> source_shares(const Mixture& outliers, const std::vector<Crop>& pool,
                                      const std::vector<Crop>& mined);

}  // namespace poem

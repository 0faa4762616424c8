#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "poem/mining.h"

namespace poem {
namespace {

constexpr size_t kMost = 24;  // there may be thousands of classes, and every epoch's list is stored

std::vector<double> shares(const ImageSet& images, const std::vector<Crop>& crops) {
  std::vector<double> share(images.class_names.size());
  const auto* labels = images.labels.data_ptr<int64_t>();
  for (const Crop& crop : crops) share[labels[crop.image]] += 1 / static_cast<double>(crops.size());
  return share;
}

}  // namespace

std::vector<ClassShare> class_shares(const ImageSet& outliers, const std::vector<Crop>& pool,
                                     const std::vector<Crop>& mined) {
  if (!outliers.labelled()) return {};
  const std::vector<double> of_pool = shares(outliers, pool), of_mined = shares(outliers, mined);
  std::vector<size_t> order(of_mined.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return of_mined[a] > of_mined[b]; });
  order.resize(std::min(order.size(), kMost));
  std::vector<ClassShare> classes;
  for (size_t i : order) classes.push_back({outliers.class_names[i], of_pool[i], of_mined[i]});
  return classes;
}

}  // namespace poem

#include "mining/shares.h"

#include <algorithm>
#include <numeric>
#include <string>

namespace poem {
namespace {

constexpr size_t kMost = 24;  // there may be thousands of classes, and every epoch's list is stored

// `groups`: of each crop, −1 for none.
std::vector<double> shares(const std::vector<int64_t>& groups, size_t count) {
  std::vector<double> share(count);
  for (const int64_t group : groups) {
    if (group >= 0) share[static_cast<size_t>(group)] += 1 / static_cast<double>(groups.size());
  }
  return share;
}

std::vector<ClassShare> shares(const std::vector<std::string>& names, const std::vector<int64_t>& pool,
                               const std::vector<int64_t>& mined) {
  const std::vector<double> of_pool = shares(pool, names.size()), of_mined = shares(mined, names.size());
  std::vector<ClassShare> result;
  for (size_t i = 0; i < names.size(); ++i) result.push_back({names[i], of_pool[i], of_mined[i]});
  return result;
}

}  // namespace

std::vector<ClassShare> class_shares(const Mixture& outliers, const std::vector<Crop>& pool,
                                     const std::vector<Crop>& mined) {
  const std::vector<std::string> names = outliers.class_names();
  if (names.empty()) return {};  // spares lazy images
  std::vector<ClassShare> classes = shares(names, outliers.labels(pool), outliers.labels(mined));
  std::stable_sort(classes.begin(), classes.end(),
                   [](const ClassShare& a, const ClassShare& b) { return a.mined > b.mined; });
  if (classes.size() > kMost) classes.erase(classes.begin() + kMost, classes.end());
  return classes;
}

std::vector<ClassShare> class_shares(const ImageSet& outliers, const std::vector<Crop>& pool,
                                     const std::vector<Crop>& mined) {
  return class_shares(Mixture(outliers), pool, mined);
}

std::vector<ClassShare> source_shares(const Mixture& outliers, const std::vector<Crop>& pool,
                                      const std::vector<Crop>& mined) {
  std::vector<std::string> names;
  for (const MixturePart& part : outliers.parts()) names.push_back(part.images.name);
  const auto parts = [&](const std::vector<Crop>& crops) {
    std::vector<int64_t> result;
    for (const Crop& crop : crops) result.push_back(static_cast<int64_t>(outliers.find(crop.image).part));
    return result;
  };
  return shares(names, parts(pool), parts(mined));
}

}  // namespace poem

// The outliers of a run: the sources of data.outliers, read as one mixture.
//
//   check_outlier_sources(config);                             // before an image is read
//   Mixture outliers = load_outliers(config, augmentation);
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "images/mixture.h"
#include "poem/config.h"
#include "poem/crops.h"
#include "readers/source.h"

namespace poem {

// Throws an Error for mistakes that show before an image is read: those that check_source() finds, a source
// that is named twice, and shares that do not fit together.
void check_outlier_sources(const Config& config);

// Reads the sources and checks that the images fit to the network and to `augmentation`.
Mixture load_outliers(const Config& config, const Augmentation& augmentation);

// Whether two sources name the same file, folder or world, whatever part of it. "photos" and "photos/" are
// one folder; the smaller of two worlds with one seed is the beginning of the other.
bool same_place(const Source& a, const Source& b);

// The share of every source: those that are given, and for the others the rest in proportion to their sizes.
// They add up to 1.
std::vector<double> fill_shares(const std::vector<std::optional<double>>& given,
                                const std::vector<int64_t>& sizes);

}  // namespace poem

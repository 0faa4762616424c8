#include "plan/outlier_source.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <numeric>
#include <optional>

#include "readers/packed.h"
#include "readers/shards.h"
#include "readers/source.h"
#include "train/outliers.h"

namespace poem {
namespace {

bool exist(const std::vector<std::string>& paths) {
  return std::all_of(paths.begin(), paths.end(),
                     [](const std::string& path) { return std::filesystem::exists(path); });
}

OutlierSource source_of(const Source& source, double otherwise) {
  OutlierSource result{1, otherwise, 0};
  if (!is_packed(source.place) && !is_shard_folder(source.place)) return result;
  const std::vector<std::string> paths = shard_paths(source.place);
  if (!exist(paths)) return result;
  for (const std::string& path : paths) {
    const PackedOutline outline = outline_packed(path);
    result.images += static_cast<double>(outline.count);
    result.image_bytes = 1;
    for (const int64_t length : outline.shape) result.image_bytes *= static_cast<double>(length);
  }
  if (!source.whole()) result.images = 0;  // how many are left is known when they are read
  return result;
}

}  // namespace

std::vector<OutlierSource> outlier_sources(const Config& config, double otherwise) {
  std::vector<OutlierSource> sources;
  std::vector<std::optional<double>> given;
  for (const std::string& text : config.data.outliers) {
    const SharedSource shared = split_share(text, config.data.folder);
    sources.push_back(source_of(parse_source(shared.text, config.data.folder), otherwise));
    given.push_back(shared.share);
  }
  // Without a share a source counts by its images; if these are not known, all such sources count alike.
  const bool known = std::all_of(sources.begin(), sources.end(), [](const auto& s) { return s.images > 0; });
  std::vector<int64_t> sizes;
  for (const OutlierSource& source : sources)
    sizes.push_back(known ? static_cast<int64_t>(source.images) : 1);
  const std::vector<double> shares = fill_shares(given, sizes);
  for (size_t i = 0; i < sources.size(); ++i) sources[i].share = shares[i];
  return sources;
}

// An image lies on `spanned` pages on average, and a page has parts of `sharers` images. It is read if one of
// these was chosen.
double bytes_read(const OutlierSource& source, double images) {
  constexpr int64_t kPage = 4096;
  const double all = source.images * source.image_bytes;
  if (source.images == 0) return images * source.image_bytes;
  if (images >= source.images) return all;  // repeats of an image are neighbours
  const auto step = static_cast<double>(std::gcd(std::llround(source.image_bytes), kPage));
  const double spanned = (source.image_bytes - step) / kPage + 1;
  const double sharers = spanned * kPage / source.image_bytes;
  return all * (1 - std::pow(1 - images / source.images, sharers));
}

}  // namespace poem

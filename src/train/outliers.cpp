#include "train/outliers.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "core/text.h"
#include "images/filters.h"
#include "images/pool.h"
#include "poem/error.h"
#include "poem/read.h"
#include "readers/source.h"
#include "readers/tar_images.h"
#include "readers/world_source.h"
#include "train/data.h"

namespace poem {
namespace {

constexpr const char* kKey = "data.outliers";
constexpr double kTolerance = 1e-6;  // of the sum of shares such as 0.333333

std::vector<SharedSource> sources_of(const Config& config) {
  std::vector<SharedSource> sources;
  for (const std::string& text : config.data.outliers) {
    if (text.empty()) throw Error(kKey, "one of its sources is empty", "name a source, or leave it out");
    sources.push_back(split_share(text, config.data.folder));
  }
  return sources;
}

std::vector<std::optional<double>> shares_of(const std::vector<SharedSource>& sources) {
  std::vector<std::optional<double>> shares;
  for (const SharedSource& source : sources) shares.push_back(source.share);
  return shares;
}

bool same(const Source& a, const Source& b) {
  return same_place(a, b) && a.exclude == b.exclude && a.per_class == b.per_class && a.count == b.count &&
         a.seed == b.seed;
}

void check_different(const std::vector<SharedSource>& sources, const std::string& folder) {
  std::vector<Source> seen;
  for (const SharedSource& source : sources) {
    const Source next = parse_source(source.text, folder);
    const auto twin =
        std::find_if(seen.begin(), seen.end(), [&](const Source& other) { return same(other, next); });
    if (twin != seen.end())
      throw Error(kKey, fmt::format("names {} twice: {} has the same images", next.text, twin->text),
                  "keep one");
    seen.push_back(next);
  }
}

void check_shares(const std::vector<std::optional<double>>& given) {
  double sum = 0;
  for (const auto& share : given) sum += share.value_or(0);
  const bool all = std::all_of(given.begin(), given.end(), [](const auto& share) { return share; });
  if (sum > 1 + kTolerance)
    throw Error(kKey, fmt::format("the shares add up to {:.6g}", sum), "lower them to 1 in total");
  if (all && sum < 1 - kTolerance)
    throw Error(kKey, fmt::format("all sources have a #share, and these add up to {:.6g}", sum),
                "make them add up to 1, or leave out one #share: its source then gets the rest");
  if (!all && sum > 1 - kTolerance)
    throw Error(kKey, "the shares add up to 1, so nothing is left for the sources without #share",
                "lower a share, or leave out those sources");
}

// Those that change only what is made smaller: area is the default, and gaussian acts on every image.
std::vector<std::string> shrinking_filters(const Config& config) {
  std::vector<std::string> names;
  for (const std::string& name : filter_names()) {
    const auto& given = config.outliers.filters;
    if (name != "area" && name != "gaussian" && std::count(given.begin(), given.end(), name) > 0)
      names.push_back(name);
  }
  return names;
}

// Whether they act on none of the images, as far as that is known before images of tars are decoded.
bool filters_are_idle(const MixturePart& part, const Augmentation& cut) {
  if (!shrinks(part.images, cut)) return true;
  if (part.lazy || !part.images.may_repeat) return false;
  int64_t image = 0;
  while (image < part.images.size() && is_repeated(part.images, image)) ++image;
  return image == part.images.size();
}

// A drawn world has no larger images. Beside other sources it needs no warning.
void warn_of_idle_filters(const std::vector<MixturePart>& parts, const Config& config,
                          const Augmentation& cut) {
  const std::vector<std::string> names = shrinking_filters(config);
  const auto drawn = [](const MixturePart& part) { return is_drawn(part.images.name); };
  const bool all_drawn = std::all_of(parts.begin(), parts.end(), drawn);
  for (const MixturePart& part : parts) {
    if (names.empty() || !filters_are_idle(part, cut) || (drawn(part) && !all_drawn)) continue;
    spdlog::warn("{}: of outliers.filters {} {} no effect, because {}", part.images.name, listed(names),
                 names.size() == 1 ? "has" : "have",
                 cut.resize
                     ? fmt::format("no image is larger than data.size {} when a crop is cut (name image "
                                   "files or a packed file of at least {} pixels)",
                                   cut.size, 2 * cut.size)
                     : "the outliers are not resized (set outliers.fit: resize)");
  }
}

void warn_of_small_images(const ImageSet& outliers, const Augmentation& cut) {
  const int64_t side = std::min(outliers.height(), outliers.width());
  if (side >= cut.size || side <= 1) return;  // points have one pixel
  if (cut.min_area < 1) return;               // random resized crops are enlarged
  spdlog::warn(
      "{}: the outliers have {} pixels, less than data.size, and get a black frame (outliers.fit: resize "
      "enlarges them)",
      outliers.name, side);
}

// What is mapped stays so and is resized crop by crop. Worlds are drawn and tars decoded when they are
// needed. Other sources are brought to size while they are read; image files to twice the size if crops draw
// their filters, so that these have something to shrink. Files that are smaller than that are not enlarged.
MixturePart read_part(const std::string& source, const Config& config) {
  ReadOptions fitted = read_options(config.data), original = fitted;
  if (config.outliers.filters != OutlierSettings().filters && has_image_files(source, fitted)) {
    fitted.size *= 2;
    fitted.repeat_small = true;
  }
  original.size = 0;
  const bool resize = config.outliers.fit == OutlierFit::kResize && !is_mapped(source, original);
  const ReadOptions& options = resize ? fitted : original;
  MixturePart part;
  part.lazy = open_lazily(source, options);
  if (!part.lazy) part.lazy = open_tars(source, options);
  part.images = part.lazy ? part.lazy->images() : read_images(source, options);
  part.images.may_repeat = options.repeat_small;
  return part;
}

void check_fits(const Mixture& outliers, const Config& config, const Augmentation& augmentation) {
  const auto& parts = outliers.parts();
  const at::ScalarType type = parts[0].images.pixels.scalar_type();
  for (size_t i = 0; i < parts.size(); ++i) {
    const ImageSet& images = parts[i].images;
    check_channels(images, static_cast<int64_t>(config.network.mean.size()));
    if (images.pixels.scalar_type() != type)
      throw Error(kKey, fmt::format("{} and {} are images and points", parts[0].images.name, images.name),
                  "name sources of one kind");
    const Crop any{0, 0};
    cut(Mixture({parts[i]}), &any, 1, augmentation);  // an Error now if they are too small
  }
}

// A source that no epoch draws from is a mistake.
void check_pool(const Mixture& outliers, int64_t pool) {
  const std::vector<int64_t> counts = pool_counts(outliers, pool);
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) continue;
    throw Error(kKey,
                fmt::format("{} gets none of the {} images of a pool", outliers.parts()[i].images.name, pool),
                "raise its #share, or mining.pool");
  }
}

void tell_parts(const Mixture& outliers) {
  for (const MixturePart& part : outliers.parts())
    spdlog::info("{}: {} outliers, {:.4g} % of each pool", part.images.name, part.images.size(),
                 100 * part.share);
}

}  // namespace

bool same_place(const Source& a, const Source& b) {
  if (is_drawn(a.place) && is_drawn(b.place)) return same_images(parse_world(a.place), parse_world(b.place));
  const auto path = [](const Source& source) {
    return (std::filesystem::path(source.place) / "").lexically_normal();
  };
  return path(a) == path(b);
}

void check_outlier_sources(const Config& config) {
  const std::vector<SharedSource> sources = sources_of(config);
  for (const SharedSource& source : sources) check_source(source.text, read_options(config.data));
  check_different(sources, config.data.folder);
  check_shares(shares_of(sources));
}

std::vector<double> fill_shares(const std::vector<std::optional<double>>& given,
                                const std::vector<int64_t>& sizes) {
  check_shares(given);
  double taken = 0, images = 0;  // images: of the sources without a share
  for (size_t i = 0; i < given.size(); ++i) {
    taken += given[i].value_or(0);
    if (!given[i]) images += static_cast<double>(sizes[i]);
  }
  std::vector<double> shares;
  for (size_t i = 0; i < given.size(); ++i) {
    const double rest = (1 - taken) * static_cast<double>(sizes[i]);
    shares.push_back(images == 0 ? *given[i] / taken : given[i] ? *given[i] : rest / images);
  }
  return shares;
}

Mixture load_outliers(const Config& config, const Augmentation& augmentation) {
  const std::vector<SharedSource> sources = sources_of(config);
  std::vector<MixturePart> parts;
  std::vector<int64_t> sizes;
  for (const SharedSource& source : sources) {
    parts.push_back(read_part(source.text, config));
    sizes.push_back(parts.back().images.size());
  }
  const std::vector<double> shares = fill_shares(shares_of(sources), sizes);
  for (size_t i = 0; i < parts.size(); ++i) parts[i].share = shares[i];
  Mixture outliers(std::move(parts));
  check_fits(outliers, config, augmentation);
  check_pool(outliers, config.mining.pool);
  warn_of_idle_filters(outliers.parts(), config, augmentation);
  for (const MixturePart& part : outliers.parts()) warn_of_small_images(part.images, augmentation);
  if (outliers.parts().size() > 1) tell_parts(outliers);
  return outliers;
}

}  // namespace poem

#include "train/leaks.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <set>
#include <string>
#include <vector>

#include "core/memory.h"
#include "core/text.h"
#include "images/copies.h"
#include "readers/source.h"
#include "train/outliers.h"

namespace poem {
namespace {

// What sets have in common, and an example.
struct Findings {
  std::vector<std::string> sets;
  std::string example;

  void add(const FoundCopies& found, const ImageSet& images, const ImageSet& other) {
    if (found.count == 0) return;
    sets.push_back(fmt::format("{} of {} in {}", found.count, images.name, other.name));
    if (example.empty())
      example = fmt::format(" (such as {} = {})", images.title(found.image), other.title(found.copy));
  }
};

// Files that do not fit would have to be read from the disk for this alone. Those that do fit are then in
// memory when the training needs them.
bool is_searched(const MixturePart& part, const ImageSet& id) {
  const ImageSet& images = part.images;
  if (part.lazy) {
    if (!is_drawn(images.name))
      spdlog::info(
          "{} is decoded on demand and not searched for ID and test images; poem data check does that",
          images.name);
    return false;
  }
  if (images.pixels.nbytes() >= available_memory()) {
    spdlog::info(
        "{} does not fit into memory and is not searched for ID and test images; poem data check "
        "does that",
        images.name);
    return false;
  }
  if (images.pixels.sizes().slice(1) == id.pixels.sizes().slice(1)) return true;
  spdlog::info(
      "{} is read at {}×{} pixels and not searched for ID and test images, which are read at {}×{}; "
      "poem data check does that",
      images.name, images.height(), images.width(), id.height(), id.width());
  return false;
}

// Whether one of the sources is a part of the other.
bool contains(const std::string& a, const std::string& b, const std::string& folder) {
  const Source first = parse_source(a, folder), second = parse_source(b, folder);
  return same_place(first, second) && (first.whole() || second.whole());
}

}  // namespace

void warn_of_leaks(const TrainingData& training, const std::optional<TestData>& test,
                   const std::string& folder) {
  Findings tested, hidden;
  std::vector<const ImageSet*> sets, others;  // copies of images of `sets` are searched for in `others`
  std::set<const ImageSet*> known;            // to be images of the training set
  bool search_id = false;
  for (const MixturePart& part : training.outliers.parts()) {
    const bool searched = is_searched(part, training.id);
    if (searched) others.push_back(&part.images);
    if (contains(part.images.name, training.id.name, folder)) {
      hidden.sets.push_back(fmt::format("{} are images of {}", part.images.name, training.id.name));
      known.insert(&part.images);
    } else if (searched) {
      search_id = true;
    }
  }
  if (search_id) sets.push_back(&training.id);
  if (test) {
    others.insert(others.begin(), &training.id);
    sets.push_back(&test->id);
    for (const auto& [name, images] : test->ood) sets.push_back(&images);
  }
  const CopyFinder finder(sets);
  for (const ImageSet* other : others) {
    const std::vector<FoundCopies> found = finder.search(*other);
    for (size_t i = 0; i < sets.size(); ++i) {
      if (sets[i] == other || (sets[i] == &training.id && known.count(other) > 0)) continue;
      (sets[i] == &training.id ? hidden : tested).add(found[i], *sets[i], *other);
    }
  }
  if (!tested.sets.empty())
    spdlog::warn(
        "images to test with are also trained on: {}{}. Results on them will be too good; "
        "poem data check shows them",
        listed(tested.sets), tested.example);
  if (!hidden.sets.empty())
    spdlog::warn(
        "ID images are also among the outliers: {}{}. The network learns to reject them; "
        "poem data check shows them",
        listed(hidden.sets), hidden.example);
}

}  // namespace poem

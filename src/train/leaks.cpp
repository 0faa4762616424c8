#include "train/leaks.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <string>
#include <vector>

#include "core/memory.h"
#include "core/text.h"
#include "images/copies.h"

namespace poem {
namespace {

// Files that do not fit would have to be read from the disk for this alone. Those that do fit are then in
// memory when the training needs them.
bool is_searched(const MixturePart& part) {
  if (part.lazy) {
    if (part.images.name.rfind("world", 0) != 0)
      spdlog::info("{} is decoded on demand and not searched for test images; poem data check does that",
                   part.images.name);
    return false;
  }
  if (part.images.pixels.nbytes() < available_memory()) return true;
  spdlog::info(
      "{} does not fit into memory: it is not searched for test images (poem data check searches it)",
      part.images.name);
  return false;
}

// What a run trains on.
std::vector<const ImageSet*> searched_sets(const TrainingData& training) {
  std::vector<const ImageSet*> sets = {&training.id};
  for (const MixturePart& part : training.outliers.parts()) {
    if (is_searched(part)) sets.push_back(&part.images);
  }
  return sets;
}

}  // namespace

void warn_of_leaks(const TrainingData& training, const TestData& test) {
  std::vector<const ImageSet*> tested = {&test.id};
  for (const auto& [name, images] : test.ood) tested.push_back(&images);
  std::vector<std::string> leaks;
  std::string example;
  const CopyFinder finder(tested);
  for (const ImageSet* other : searched_sets(training)) {
    if (other->pixels.sizes().slice(1) != test.id.pixels.sizes().slice(1)) {
      spdlog::info(
          "{} is read at {}×{} pixels and not searched for test images, which are read at {}×{}; poem data "
          "check does that",
          other->name, other->height(), other->width(), test.id.height(), test.id.width());
      continue;
    }
    const std::vector<FoundCopies> found = finder.search(*other);
    for (size_t i = 0; i < tested.size(); ++i) {
      if (found[i].count == 0) continue;
      leaks.push_back(fmt::format("{} of {} in {}", found[i].count, tested[i]->name, other->name));
      if (example.empty())
        example = fmt::format("{} = {}", tested[i]->title(found[i].image), other->title(found[i].copy));
    }
  }
  if (leaks.empty()) return;
  spdlog::warn(
      "images to test with are also trained on: {} (such as {}). Results on them will be too good; poem data "
      "check shows them",
      listed(leaks), example);
}

}  // namespace poem

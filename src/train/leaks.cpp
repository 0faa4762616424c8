#include "train/leaks.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/interrupts.h"
#include "core/memory.h"
#include "core/text.h"
#include "images/copies.h"
#include "images/duplicates.h"
#include "images/resize.h"
#include "poem/read.h"
#include "readers/source.h"
#include "train/outliers.h"

namespace poem {
namespace {

// Images whose looks are compared at most. It takes seconds, or minutes if they are all much alike.
constexpr int64_t kMostCompared = 1 << 18;
constexpr size_t kMostSets = 64;  // of find_duplicates()

// What sets have in common, and an example.
struct Findings {
  std::vector<std::string> sets;
  std::string example;

  void add(const FoundCopies& found, const ImageSet& images, const ImageSet& other) {
    add(found, images, other, "in", '=');
  }
  void add(const Overlap& overlap, const ImageSet& images, const ImageSet& other) {
    add(found_in(overlap.exact), images, other, "in", '=');
    add(found_in(overlap.near), images, other, "look like images in", '~');
  }

 private:
  static FoundCopies found_in(const Twins& twins) {
    if (twins.images == 0) return {};
    return {twins.images, twins.pairs[0].image, twins.pairs[0].twin};
  }
  void add(const FoundCopies& found, const ImageSet& images, const ImageSet& other, const char* how,
           char sign) {
    if (found.count == 0) return;
    sets.push_back(fmt::format("{} of {} {} {}", found.count, images.name, how, other.name));
    if (example.empty())
      example = fmt::format(" (such as {} {} {})", images.title(found.image), sign, other.title(found.copy));
  }
};

void tell_unsearched(const ImageSet& images, const std::string& reason) {
  spdlog::warn("{} {} not searched for ID and test images; poem data check does that", images.name, reason);
}

// Files that do not fit would have to be read from the disk for this alone. Those that do fit are then in
// memory when the training needs them.
bool is_searched(const MixturePart& part, const std::string& folder) {
  const ImageSet& images = part.images;
  if (part.lazy) {
    if (!is_drawn(images.name)) tell_unsearched(images, "is decoded on demand and");
    return false;
  }
  if (images.pixels.nbytes() < available_memory() || !is_mapped(images.name, {0, false, folder})) return true;
  tell_unsearched(images, "does not fit into memory and is");
  return false;
}

// As the images are at this size.
MarkedSet marks_of(const ImageSet& images, int64_t size) {
  constexpr int64_t kBlock = 1024;  // images between two looks at Ctrl-C
  MarkedSet set;
  for (int64_t first = 0; first < images.size(); first += kBlock) {
    stop_if_interrupted();
    std::vector<int64_t> block(static_cast<size_t>(std::min(kBlock, images.size() - first)));
    std::iota(block.begin(), block.end(), first);
    const std::vector<Fingerprint> marks = fingerprints(fit(subset(images, block).pixels, size));
    set.marks.insert(set.marks.end(), marks.begin(), marks.end());
  }
  return set;
}

// What `sets` and `others`, which were read at another size, have in common: `use` gets each overlap and the
// positions of both. Images that were read from one file at two sizes need not have the same pixels at one
// size, but they look alike.
void compare_looks(const std::vector<const ImageSet*>& sets, const std::vector<const ImageSet*>& others,
                   int64_t size, const std::function<void(const Overlap&, size_t, size_t)>& use) {
  std::vector<const ImageSet*> all = sets;
  all.insert(all.end(), others.begin(), others.end());
  int64_t images = 0;
  for (const ImageSet* set : all) images += set->size();
  if (images > kMostCompared || all.size() > kMostSets) {
    for (const ImageSet* other : others)
      tell_unsearched(*other, fmt::format("is read at {}×{} pixels, where {} images are too many to compare "
                                          "by their look, and is",
                                          other->height(), other->width(), images));
    return;
  }
  std::vector<MarkedSet> marks;
  for (const ImageSet* set : all) marks.push_back(marks_of(*set, size));
  for (const Overlap& overlap : find_duplicates(marks, 1).overlaps) {
    if (overlap.set < sets.size() && overlap.other >= sets.size())
      use(overlap, overlap.set, overlap.other - sets.size());
  }
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
  std::vector<const ImageSet*> resized;       // the same, but they were read at another size
  std::set<const ImageSet*> known;            // to be images of the training set
  bool search_id = false;
  for (const MixturePart& part : training.outliers.parts()) {
    const bool searched = is_searched(part, folder);
    const bool same_size = part.images.pixels.sizes().slice(1) == training.id.pixels.sizes().slice(1);
    if (searched) (same_size ? others : resized).push_back(&part.images);
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
  const auto add = [&](const auto& found, const ImageSet* set, const ImageSet* other) {
    if (set == other || (set == &training.id && known.count(other) > 0)) return;
    (set == &training.id ? hidden : tested).add(found, *set, *other);
  };
  const CopyFinder finder(sets);
  for (const ImageSet* other : others) {
    const std::vector<FoundCopies> found = finder.search(*other);
    for (size_t i = 0; i < sets.size(); ++i) add(found[i], sets[i], other);
  }
  if (!sets.empty() && !resized.empty())
    compare_looks(sets, resized, training.id.height(), [&](const Overlap& overlap, size_t set, size_t other) {
      add(overlap, sets[set], resized[other]);
    });
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

#include "images/duplicates.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <set>
#include <tuple>
#include <utility>

#include "core/interrupts.h"
#include "core/progress.h"
#include "poem/error.h"

namespace poem {
namespace {

constexpr size_t kMostSets = 64;
using SetMask = uint64_t;  // bit i: set i

SetMask bit(size_t set) { return SetMask{1} << set; }

// All images of one set with the same pixels.
struct Copies {
  size_t set;
  int64_t first;  // the image with the lowest index
  int64_t count = 1;
  int64_t twin = -1;        // another of them, with another label if there is one
  bool relabelled = false;  // two of them have different labels
  size_t group = 0;         // of copies in all sets
};

struct Collection {
  const std::vector<MarkedSet>& sets;
  std::vector<Copies> copies;  // by group, then by set
  std::vector<SetMask> exact;  // sets that each group is in

  const Fingerprint& mark(const Copies& one) const {
    return sets[one.set].marks[static_cast<size_t>(one.first)];
  }
  int64_t label(const Copies& one) const { return label(one.set, one.first); }
  int64_t label(size_t set, int64_t image) const {
    const at::Tensor& labels = sets[set].labels;
    return labels.defined() ? labels.data_ptr<int64_t>()[image] : -1;
  }
  // Whether a copy of one and a copy of the other, both in one set, have different labels.
  bool differ(const Copies& a, const Copies& b) const {
    return a.set == b.set && (a.relabelled || b.relabelled || label(a) != label(b));
  }
};

void add_image(Collection& all, size_t set, int64_t image, bool same) {
  if (!same) all.exact.push_back(0);
  const size_t group = all.exact.size() - 1;
  if (same && all.copies.back().set == set) {
    Copies& copies = all.copies.back();
    const bool other_label = all.label(set, image) != all.label(copies);
    if (copies.count == 1 || (other_label && !copies.relabelled)) copies.twin = image;
    copies.relabelled = copies.relabelled || other_label;
    ++copies.count;
    return;
  }
  all.copies.push_back({set, image});
  all.copies.back().group = group;
  all.exact.back() |= bit(set);
}

// Sorts the images of all sets, so that copies are neighbours.
Collection collect(const std::vector<MarkedSet>& sets) {
  struct Place {
    uint32_t set;
    uint32_t image;
  };
  std::vector<Place> places;
  for (size_t set = 0; set < sets.size(); ++set) {
    for (size_t i = 0; i < sets[set].marks.size(); ++i)
      places.push_back({static_cast<uint32_t>(set), static_cast<uint32_t>(i)});
  }
  const auto mark = [&](const Place& place) -> const Fingerprint& {
    return sets[place.set].marks[place.image];
  };
  std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) {
    const Fingerprint &x = mark(a), &y = mark(b);
    return std::tie(x.pixels, x.waves, a.set, a.image) < std::tie(y.pixels, y.waves, b.set, b.image);
  });
  Collection all{sets, {}, {}};
  for (size_t i = 0; i < places.size(); ++i)
    add_image(all, places[i].set, places[i].image,
              i > 0 && same_pixels(mark(places[i]), mark(places[i - 1])));
  return all;
}

// Finds the copies that look alike. Signs that differ in at most kMostSigns of 64 bits agree completely in at
// least kAgree of kMostSigns + kAgree blocks of bits. So for every choice of kAgree blocks a table is made of
// the signs in these blocks, and only images with the same entry are compared: every pair is found, and only
// a small part of all pairs is looked at. If the images are all much alike, comparing all pairs is less work.
class NearSearch {
 public:
  explicit NearSearch(const Collection& all);
  void run();

  // By copies: sets with a near duplicate; whether one in the same set has another label.
  SetMask near(size_t copies) const { return near_[copies]; }
  bool relabelled(size_t copies) const { return relabelled_[copies]; }

 private:
  static constexpr int kAgree = 3, kBlocks = kMostSigns + kAgree, kKeys = 1 << 15;
  using Blocks = std::array<int, kAgree>;
  static uint64_t block_mask(int block);
  static uint32_t key(uint64_t signs, const Blocks& blocks);
  static Blocks first_agreeing(uint64_t difference);

  struct Table {  // of all signs, sorted by key
    std::vector<uint32_t> ends, rows;
    std::vector<uint64_t> signs;
  };
  void sort_by_key(const Blocks& blocks, Table& table) const;
  void search(const Blocks& blocks, Table& table);
  void search_tables();
  void search_all_pairs();
  uint64_t pairs_in_tables() const;
  void compare(size_t a, size_t b);

  const Collection& all_;
  std::vector<Blocks> choices_;
  std::vector<uint64_t> signs_;   // of images that are not flat
  std::vector<uint32_t> copies_;  // that they belong to
  std::vector<std::atomic<SetMask>> near_;
  std::vector<std::atomic<bool>> relabelled_;
};

NearSearch::NearSearch(const Collection& all)
    : all_(all), near_(all.copies.size()), relabelled_(all.copies.size()) {
  for (int a = 0; a < kBlocks; ++a) {
    for (int b = a + 1; b < kBlocks; ++b) {
      for (int c = b + 1; c < kBlocks; ++c) choices_.push_back({a, b, c});
    }
  }
  for (size_t i = 0; i < all.copies.size(); ++i) {
    const Fingerprint& mark = all.mark(all.copies[i]);
    if (mark.flat()) continue;
    signs_.push_back(mark.signs);
    copies_.push_back(static_cast<uint32_t>(i));
  }
}

uint64_t NearSearch::block_mask(int block) {
  const int first = 64 * block / kBlocks, last = 64 * (block + 1) / kBlocks;
  return ((uint64_t{1} << (last - first)) - 1) << first;
}

uint32_t NearSearch::key(uint64_t signs, const Blocks& blocks) {
  uint32_t key = 0;
  for (const int block : blocks)
    key = key << 5 | static_cast<uint32_t>((signs & block_mask(block)) >> (64 * block / kBlocks));
  return key;
}

NearSearch::Blocks NearSearch::first_agreeing(uint64_t difference) {
  Blocks found{};
  size_t next = 0;
  for (int block = 0; block < kBlocks && next < found.size(); ++block) {
    if ((difference & block_mask(block)) == 0) found[next++] = block;
  }
  return found;
}

// A counting sort.
void NearSearch::sort_by_key(const Blocks& blocks, Table& table) const {
  table.ends.assign(kKeys + 1, 0);
  for (const uint64_t signs : signs_) ++table.ends[key(signs, blocks) + 1];
  for (size_t k = 1; k < table.ends.size(); ++k) table.ends[k] += table.ends[k - 1];
  table.rows.resize(signs_.size());
  table.signs.resize(signs_.size());
  for (size_t row = 0; row < signs_.size(); ++row) {
    const uint32_t place = table.ends[key(signs_[row], blocks)]++;  // ends as a beginning becomes an end
    table.rows[place] = static_cast<uint32_t>(row);
    table.signs[place] = signs_[row];
  }
}

void NearSearch::search(const Blocks& blocks, Table& table) {
  sort_by_key(blocks, table);
  for (uint32_t k = 0, begin = 0; k < kKeys; begin = table.ends[k++]) {
    for (uint32_t i = begin; i < table.ends[k]; ++i) {
      for (uint32_t j = i + 1; j < table.ends[k]; ++j) {
        const uint64_t difference = table.signs[i] ^ table.signs[j];
        // A pair is compared in the first of the tables that it is found in.
        if (count_ones(difference) <= kMostSigns && first_agreeing(difference) == blocks)
          compare(copies_[table.rows[i]], copies_[table.rows[j]]);
      }
    }
  }
}

uint64_t NearSearch::pairs_in_tables() const {
  std::atomic<uint64_t> sum{0};
  at::parallel_for(0, static_cast<int64_t>(choices_.size()), 1, [&](int64_t begin, int64_t end) {
    std::vector<uint32_t> counts(kKeys);
    uint64_t pairs = 0;
    for (int64_t choice = begin; choice < end; ++choice) {
      std::fill(counts.begin(), counts.end(), 0);
      for (const uint64_t signs : signs_)
        pairs += counts[key(signs, choices_[static_cast<size_t>(choice)])]++;
    }
    sum += pairs;
  });
  return sum;
}

void NearSearch::search_tables() {
  Progress bar("comparing", static_cast<int64_t>(choices_.size()), "tables");
  const int64_t step = at::get_num_threads();
  std::vector<Table> tables(static_cast<size_t>(step));
  const auto count = static_cast<int64_t>(choices_.size());
  for (int64_t first = 0; first < count; first += step) {
    stop_if_interrupted();
    const int64_t last = std::min(first + step, count);
    at::parallel_for(first, last, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        search(choices_[static_cast<size_t>(i)], tables[static_cast<size_t>(i - first)]);
    });
    bar.advance(last - first);
  }
}

void NearSearch::search_all_pairs() {
  const auto count = static_cast<int64_t>(signs_.size());
  Progress bar("comparing", count, "images");
  constexpr int64_t kStep = 1024;
  for (int64_t first = 0; first < count; first += kStep) {
    stop_if_interrupted();
    const int64_t last = std::min(first + kStep, count);
    at::parallel_for(first, last, 8, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t j = 0; j < i; ++j) {
          if (count_ones(signs_[static_cast<size_t>(i)] ^ signs_[static_cast<size_t>(j)]) <= kMostSigns)
            compare(copies_[static_cast<size_t>(i)], copies_[static_cast<size_t>(j)]);
        }
      }
    });
    bar.advance(last - first);
  }
}

void NearSearch::run() {
  const uint64_t count = signs_.size();
  if (pairs_in_tables() < count * (count - 1) / 2)
    search_tables();
  else
    search_all_pairs();
}

// The order of the comparisons makes no difference to the result.
void NearSearch::compare(size_t a, size_t b) {
  const Copies &x = all_.copies[a], &y = all_.copies[b];
  if (x.group == y.group) return;
  const bool other_label = all_.differ(x, y);
  const bool known = (near_[a] & bit(y.set)) && (near_[b] & bit(x.set)) &&
                     (!other_label || (relabelled_[a] && relabelled_[b]));
  if (known || !look_alike(all_.mark(x), all_.mark(y))) return;
  near_[a] |= bit(y.set);
  near_[b] |= bit(x.set);
  if (other_label) relabelled_[a] = relabelled_[b] = true;
}

// Counts what was found, and chooses the pairs to show.
class Summary {
 public:
  Summary(const Collection& all, const NearSearch& near, size_t most_pairs);
  Duplicates take();

 private:
  enum Kind { kExact, kNear, kRelabelled };
  bool has(size_t copies, size_t other, Kind kind) const;
  int64_t count(size_t set, size_t other, Kind kind) const;
  DuplicatePair twin_of(size_t copies, size_t other, Kind kind) const;
  std::vector<DuplicatePair> pairs(size_t set, size_t other, Kind kind, size_t most) const;
  Twins twins(size_t set, size_t other, Kind kind) const;

  const Collection& all_;
  const NearSearch& near_;
  const size_t most_pairs_;
  std::vector<std::vector<size_t>> members_;  // the copies of each set
};

Summary::Summary(const Collection& all, const NearSearch& near, size_t most_pairs)
    : all_(all), near_(near), most_pairs_(most_pairs), members_(all.sets.size()) {
  for (size_t i = 0; i < all.copies.size(); ++i) members_[all.copies[i].set].push_back(i);
}

bool Summary::has(size_t copies, size_t other, Kind kind) const {
  const Copies& one = all_.copies[copies];
  const bool exact = one.set == other ? one.count > 1 : (all_.exact[one.group] & bit(other)) != 0;
  if (kind == kExact) return exact;
  if (kind == kNear) return !exact && (near_.near(copies) & bit(other)) != 0;
  return one.set == other && (one.relabelled || near_.relabelled(copies));
}

int64_t Summary::count(size_t set, size_t other, Kind kind) const {
  int64_t sum = 0;
  for (const size_t i : members_[set]) sum += has(i, other, kind) ? all_.copies[i].count : 0;
  return sum;
}

// The most alike of the images for which has() is true.
DuplicatePair Summary::twin_of(size_t copies, size_t other, Kind kind) const {
  const Copies& one = all_.copies[copies];
  const bool inside = one.set == other;
  if (inside && (kind == kExact || (kind == kRelabelled && one.relabelled))) return {one.first, one.twin, 1};
  DuplicatePair best{one.first, -1, -1};
  for (const size_t i : members_[other]) {
    const Copies& two = all_.copies[i];
    if (kind == kExact) {
      if (two.group == one.group) return {one.first, two.first, 1};
      continue;
    }
    if (two.group == one.group || !look_alike(all_.mark(one), all_.mark(two))) continue;
    if (kind == kRelabelled && !all_.differ(one, two)) continue;
    const bool second =
        kind == kRelabelled && all_.label(one) == all_.label(two);  // then a copy's label differs
    const double alike = likeness(all_.mark(one), all_.mark(two));
    if (alike > best.likeness) best = {one.first, second ? two.twin : two.first, alike};
  }
  return best;
}

std::vector<DuplicatePair> Summary::pairs(size_t set, size_t other, Kind kind, size_t most) const {
  std::vector<size_t> chosen;
  for (const size_t i : members_[set]) {
    if (chosen.size() < most && has(i, other, kind)) chosen.push_back(i);
  }
  std::vector<DuplicatePair> found(chosen.size());
  at::parallel_for(0, static_cast<int64_t>(chosen.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      found[i] = twin_of(chosen[i], other, kind);
  });
  return found;
}

Twins Summary::twins(size_t set, size_t other, Kind kind) const {
  Twins result{count(set, other, kind), count(other, set, kind), {}};
  std::vector<DuplicatePair> found = pairs(set, other, kind, most_pairs_);
  if (set != other) {
    for (const DuplicatePair& pair : pairs(other, set, kind, most_pairs_))
      found.push_back({pair.twin, pair.image, pair.likeness});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.likeness > b.likeness; });
  std::set<std::pair<int64_t, int64_t>> seen;  // inside a set, in either order
  for (const DuplicatePair& pair : found) {
    std::pair<int64_t, int64_t> key{pair.image, pair.twin};
    if (set == other && key.first > key.second) std::swap(key.first, key.second);
    if (result.pairs.size() < most_pairs_ && seen.insert(key).second) result.pairs.push_back(pair);
  }
  return result;
}

Duplicates Summary::take() {
  Duplicates found;
  for (size_t set = 0; set < members_.size(); ++set) {
    found.different.push_back(static_cast<int64_t>(members_[set].size()));
    for (size_t other = set; other < members_.size(); ++other) {
      Overlap overlap{set, other, twins(set, other, kExact), twins(set, other, kNear),
                      twins(set, other, kRelabelled)};
      if (overlap.exact.images + overlap.near.images + overlap.near.others > 0)
        found.overlaps.push_back(std::move(overlap));
    }
  }
  return found;
}

}  // namespace

Duplicates find_duplicates(const std::vector<MarkedSet>& sets, size_t most_pairs) {
  if (sets.size() > kMostSets)
    throw Error("duplicates",
                fmt::format("are searched for in {} sets at a time, not in {}", kMostSets, sets.size()),
                "name fewer");
  const Collection all = collect(sets);
  NearSearch near(all);
  near.run();
  return Summary(all, near, most_pairs).take();
}

}  // namespace poem

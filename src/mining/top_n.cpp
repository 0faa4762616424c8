#include "mining/top_n.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/float_key.h"
#include "poem/error.h"

namespace poem {
namespace {

// The buffer holds 2N entries and this many more, so that it is rarely full even if N is small.
constexpr int64_t kSpareRoom = 1024;

// The key at position n (from 0) of the sorted `keys`, which this function destroys. Radix select: each pass
// keeps the keys that share a digit with the key sought.
uint32_t nth_smallest(std::vector<uint32_t>& keys, size_t n) {
  constexpr uint32_t kMask = (1u << 11) - 1;
  size_t left = keys.size();
  for (int shift : {22, 11, 0}) {
    std::array<uint32_t, kMask + 1> count{};
    for (size_t i = 0; i < left; ++i) ++count[keys[i] >> shift & kMask];
    uint32_t digit = 0;
    while (n >= count[digit]) n -= count[digit++];
    size_t same = 0;
    for (size_t i = 0; i < left; ++i) {
      const uint32_t key = keys[i];
      keys[same] = key;
      same += (key >> shift & kMask) == digit;
    }
    left = same;
  }
  return keys[0];
}

}  // namespace

TopN::TopN(int64_t n) : n_(n) {
  if (n < 0) throw Error("selection", fmt::format("{} is negative", n), "select 0 or more");
}

void TopN::offer(const float* scores, int64_t count, int64_t first_index) {
  const float* bad = std::find_if(scores, scores + count, [](float x) { return std::isnan(x); });
  if (bad != scores + count) {
    throw Error("selection", fmt::format("the score of index {} is NaN", first_index + (bad - scores)),
                "correct what computed it");
  }
  if (keys_.empty()) {
    keys_.resize(2 * n_ + kSpareRoom);
    indices_.resize(keys_.size());
  }
  const auto room = static_cast<int64_t>(keys_.size());
  for (int64_t done = 0; done < count;) {
    const int64_t end = std::min(count, done + room - kept_);
    int64_t kept = kept_;
    for (; done < end; ++done) {  // no branches: every key is written, and kept by advancing the position
      const uint32_t key = descending_key(scores[done]);
      const int64_t index = first_index + done;
      keys_[kept] = key;
      indices_[kept] = index;
      kept += (key < floor_key_) | ((key == floor_key_) & (index < floor_index_));
    }
    kept_ = kept;
    if (kept_ == room) shrink();
  }
}

// Keeps the n best in the order in which they came, so that ascending indices stay ascending.
void TopN::shrink() {
  if (n_ == 0) kept_ = 0;
  if (kept_ <= n_) return;
  scratch_.assign(keys_.begin(), keys_.begin() + kept_);
  floor_key_ = nth_smallest(scratch_, n_ - 1);
  // Entries that tie with the floor fill the places that the better ones leave, smallest indices first.
  int64_t better = 0;
  std::vector<int64_t> tied;
  for (int64_t i = 0; i < kept_; ++i) {
    better += keys_[i] < floor_key_;
    if (keys_[i] == floor_key_) tied.push_back(indices_[i]);
  }
  const auto last = tied.begin() + (n_ - better - 1);
  std::nth_element(tied.begin(), last, tied.end());
  floor_index_ = *last;
  int64_t kept = 0;
  for (int64_t i = 0; i < kept_; ++i) {
    const uint32_t key = keys_[i];
    const int64_t index = indices_[i];
    keys_[kept] = key;
    indices_[kept] = index;
    kept += (key < floor_key_) | ((key == floor_key_) & (index <= floor_index_));
  }
  kept_ = kept;
}

std::vector<int64_t> TopN::take() {
  if (kept_ < n_) {
    throw Error("selection", fmt::format("{} are to be selected, but only {} were offered", n_, kept_),
                "select fewer or enlarge the pool");
  }
  shrink();
  std::vector<int64_t> chosen(indices_.begin(), indices_.begin() + kept_);
  if (!std::is_sorted(chosen.begin(), chosen.end())) std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace poem

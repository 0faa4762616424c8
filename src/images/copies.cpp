#include "images/copies.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "core/interrupts.h"
#include "images/fingerprint.h"

namespace poem {
namespace {

constexpr size_t kFew = 64;       // bytes
constexpr int64_t kBlock = 4096;  // images searched between two looks at Ctrl-C

// Bytes from the middle of an image, where photos differ most.
uint64_t hash_of_few(const uint8_t* image, size_t bytes) {
  const size_t count = std::min(kFew, bytes);
  return hash_of(image + (bytes - count) / 2, count);
}

size_t bytes_of(const ImageSet& set) {
  return static_cast<size_t>(set.channels() * set.height() * set.width());
}

bool same_shape(const ImageSet& a, const ImageSet& b) {
  return a.pixels.scalar_type() == b.pixels.scalar_type() &&
         a.pixels.sizes().slice(1) == b.pixels.sizes().slice(1);
}

}  // namespace

CopyFinder::CopyFinder(const std::vector<const ImageSet*>& sets) : sets_(sets) {
  for (size_t set = 0; set < sets.size(); ++set) {
    const ImageSet& images = *sets[set];
    pixels_.push_back(images.pixels.contiguous());
    if (images.pixels.scalar_type() != at::kByte) continue;
    for (int64_t i = 0; i < images.size(); ++i) add(set, i);
  }
}

const uint8_t* CopyFinder::pixels_of(size_t set, int64_t image) const {
  const ImageSet& images = *sets_[set];
  return pixels_[set].data_ptr<uint8_t>() + static_cast<size_t>(images.row(image)) * bytes_of(images);
}

void CopyFinder::add(size_t set, int64_t image) {
  const size_t bytes = bytes_of(*sets_[set]);
  const uint8_t* pixels = pixels_of(set, image);
  const uint64_t hash = hash_of(pixels, bytes);
  const auto [begin, end] = whole_.equal_range(hash);
  for (auto other = begin; other != end; ++other) {
    Copies& copies = groups_[other->second];
    if (copies.set != set || std::memcmp(pixels_of(set, copies.first), pixels, bytes) != 0) continue;
    ++copies.count;
    return;
  }
  few_.insert(hash_of_few(pixels, bytes));
  whole_.emplace(hash, groups_.size());
  groups_.push_back({set, image, 1});
}

std::vector<FoundCopies> CopyFinder::search(const ImageSet& others) const {
  std::vector<FoundCopies> results(sets_.size());
  const auto fits = [&](const ImageSet* set) { return same_shape(*set, others); };
  if (few_.empty() || others.pixels.scalar_type() != at::kByte ||
      std::none_of(sets_.begin(), sets_.end(), fits))
    return results;
  const size_t bytes = bytes_of(others);
  std::vector<int64_t> found(groups_.size(), -1);  // the first copy of each
  std::mutex mutex;
  const auto compare = [&](const uint8_t* other, int64_t copy) {
    if (few_.count(hash_of_few(other, bytes)) == 0) return;
    const auto [begin, end] = whole_.equal_range(hash_of(other, bytes));
    for (auto same = begin; same != end; ++same) {
      const auto& [set, image, count] = groups_[same->second];
      if (!fits(sets_[set]) || std::memcmp(pixels_of(set, image), other, bytes) != 0) continue;
      const std::lock_guard lock(mutex);
      int64_t& first = found[same->second];
      if (first < 0 || copy < first) first = copy;
    }
  };
  for (int64_t first = 0; first < others.size(); first += kBlock) {
    stop_if_interrupted();
    const int64_t count = std::min(kBlock, others.size() - first), row = others.row(first);
    const at::Tensor block =
        others.pixels.narrow(0, row, others.row(first + count - 1) + 1 - row).contiguous();
    at::parallel_for(0, count, 256, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        compare(block.data_ptr<uint8_t>() + static_cast<size_t>(others.row(first + i) - row) * bytes,
                first + i);
    });
  }
  for (size_t i = 0; i < groups_.size(); ++i) {  // in the order of their first images
    if (found[i] < 0) continue;
    FoundCopies& result = results[groups_[i].set];
    if (result.count == 0) result = {0, groups_[i].first, found[i]};
    result.count += groups_[i].count;
  }
  return results;
}

}  // namespace poem

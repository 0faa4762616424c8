#include "images/lazy_images.h"

#include <ATen/ATen.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "core/progress.h"
#include "poem/error.h"

namespace poem {
namespace {

constexpr size_t kBlock = 512;  // images made between two looks at Ctrl-C

// Zeros that take no memory until they are written to. With huge pages a single image would commit 2 MiB.
at::Tensor untouched(const std::string& name, const std::vector<int64_t>& shape, at::ScalarType type) {
  size_t bytes = c10::elementSize(type);
  for (const int64_t length : shape) bytes *= static_cast<size_t>(length);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                        /*fd=*/-1, /*offset=*/0);
  if (memory == MAP_FAILED) throw Error(name, "does not fit into memory", "use fewer images");
  ::madvise(memory, bytes, MADV_NOHUGEPAGE);
  return at::from_blob(
      memory, shape, [bytes](void* p) { ::munmap(p, bytes); }, type);
}

}  // namespace

LazyImages::LazyImages(const std::string& name, const std::vector<int64_t>& shape,
                       std::vector<std::string> class_names, Make make)
    : images_{name, untouched(name, shape, at::kByte), {}, std::move(class_names)},
      make_(std::move(make)),
      there_(static_cast<size_t>(shape[0])),
      most_bytes_(images_.pixels.nbytes()) {
  if (!images_.class_names.empty()) images_.labels = untouched(name, {shape[0]}, at::kLong);
}

void LazyImages::describe(ImageNames names, const at::Tensor& labels) {
  images_.names = std::move(names);
  images_.labels = labels;
  knows_labels_ = true;
}

void LazyImages::keep_at_most(uint64_t bytes) {
  most_bytes_ = std::min<uint64_t>(bytes, images_.pixels.nbytes());
}

std::vector<int64_t> LazyImages::missing(const Crop* crops, int64_t count) const {
  std::vector<int64_t> images;
  for (int64_t i = 0; i < count; ++i) {
    if (!there_.at(static_cast<size_t>(crops[i].image))) images.push_back(crops[i].image);
  }
  std::sort(images.begin(), images.end());
  images.erase(std::unique(images.begin(), images.end()), images.end());
  return images;
}

void LazyImages::forget() {
  ::madvise(images_.pixels.data_ptr(), images_.pixels.nbytes(), MADV_DONTNEED);
  std::fill(there_.begin(), there_.end(), false);
  made_ = 0;
}

void LazyImages::make(const Crop* crops, int64_t count, void (*before_block)()) {
  std::vector<int64_t> missing = this->missing(crops, count);
  if (missing.empty()) return;
  const uint64_t each = images_.pixels.nbytes() / there_.size();
  if (made_ > 0 && (static_cast<uint64_t>(made_) + missing.size()) * each > most_bytes_) {
    forget();
    missing = this->missing(crops, count);
  }
  const bool large = missing.size() > kBlock;  // a batch needs no bar of its own
  std::optional<Progress> bar;
  if (large) bar.emplace("making " + images_.name, static_cast<int64_t>(missing.size()), "images");
  for (size_t first = 0; first < missing.size(); first += kBlock) {
    if (large) before_block();
    const size_t last = std::min(first + kBlock, missing.size());
    make_block({missing.begin() + static_cast<int64_t>(first), missing.begin() + static_cast<int64_t>(last)});
    if (bar) bar->advance(static_cast<int64_t>(last - first));
  }
}

void LazyImages::make_block(const std::vector<int64_t>& images) {
  std::vector<int64_t> labels(images.size());
  const at::Tensor pixels = make_(images, knows_labels() ? nullptr : labels.data());
  const size_t bytes = pixels[0].nbytes();
  const auto* from = pixels.data_ptr<uint8_t>();
  auto* to = images_.pixels.data_ptr<uint8_t>();
  for (size_t i = 0; i < images.size(); ++i) {
    const auto image = static_cast<size_t>(images[i]);
    std::memcpy(to + image * bytes, from + i * bytes, bytes);
    if (!knows_labels()) images_.labels.data_ptr<int64_t>()[image] = labels[i];
    there_[image] = true;
  }
  made_ += static_cast<int64_t>(images.size());
}

}  // namespace poem

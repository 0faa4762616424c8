#include "images/mixture.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "poem/error.h"

namespace poem {
namespace {

// The crops of each part, with the indices that the images have there.
struct Split {
  std::vector<std::vector<Crop>> crops;  // by part
  std::vector<size_t> part;              // of every crop
};

Split split(const Mixture& images, const Crop* crops, int64_t count) {
  Split result{std::vector<std::vector<Crop>>(images.parts().size()), {}};
  result.part.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const Mixture::Place place = images.find(crops[i].image);
    result.crops[place.part].push_back({place.image, crops[i].seed});
    result.part.push_back(place.part);
  }
  return result;
}

// Where the crops are if those of the first part come first, then those of the second, and so on.
std::vector<int64_t> rows_by_part(const Split& split) {
  std::vector<int64_t> next(split.crops.size());
  for (size_t part = 1; part < next.size(); ++part)
    next[part] = next[part - 1] + static_cast<int64_t>(split.crops[part - 1].size());
  std::vector<int64_t> rows;
  rows.reserve(split.part.size());
  for (const size_t part : split.part) rows.push_back(next[part]++);
  return rows;
}

void make(const MixturePart& part, const Crop* crops, int64_t count) {
  if (part.lazy) part.lazy->make(crops, count);
}

}  // namespace

Mixture::Mixture(const ImageSet& images) : parts_{{images}} {}

int64_t Mixture::size() const {
  int64_t sum = 0;
  for (const MixturePart& part : parts_) sum += part.images.size();
  return sum;
}

Mixture::Place Mixture::find(int64_t image) const {
  int64_t rest = image;
  for (size_t part = 0; part < parts_.size() && rest >= 0; ++part) {
    const int64_t size = parts_[part].images.size();
    if (rest < size) return {part, rest};
    rest -= size;
  }
  throw Error("outliers", fmt::format("{} images are there, but image {} is needed", size(), image),
              "use the data that the run was started with");
}

void Mixture::make_labels(const std::vector<Crop>& crops) const {
  const auto unknown = [](const MixturePart& part) { return part.lazy && !part.lazy->knows_labels(); };
  if (std::none_of(parts_.begin(), parts_.end(), unknown)) return;
  const Split own = split(*this, crops.data(), static_cast<int64_t>(crops.size()));
  for (size_t part = 0; part < parts_.size(); ++part) {
    if (unknown(parts_[part]))
      poem::make(parts_[part], own.crops[part].data(), static_cast<int64_t>(own.crops[part].size()));
  }
}

void Mixture::make(const std::vector<Crop>& crops, void (*before_block)()) const {
  const auto lazy = [](const MixturePart& part) { return part.lazy != nullptr; };
  if (std::none_of(parts_.begin(), parts_.end(), lazy)) return;
  const Split own = split(*this, crops.data(), static_cast<int64_t>(crops.size()));
  for (size_t part = 0; part < parts_.size(); ++part) {
    const std::vector<Crop>& some = own.crops[part];
    if (lazy(parts_[part]))
      parts_[part].lazy->make(some.data(), static_cast<int64_t>(some.size()), before_block);
  }
}

std::vector<std::string> Mixture::class_names() const {
  const auto labelled =
      std::count_if(parts_.begin(), parts_.end(), [](const MixturePart& p) { return p.images.labelled(); });
  std::vector<std::string> names;
  for (const MixturePart& part : parts_) {
    if (!part.images.labelled()) continue;
    for (const std::string& name : part.images.class_names)
      names.push_back(labelled > 1 ? fmt::format("{} ({})", name, part.images.name) : name);
  }
  return names;
}

std::vector<int64_t> Mixture::labels(const std::vector<Crop>& crops) const {
  make_labels(crops);
  std::vector<int64_t> first(parts_.size());  // class of each part
  int64_t classes = 0;
  for (size_t part = 0; part < parts_.size(); ++part) {
    first[part] = classes;
    if (parts_[part].images.labelled())
      classes += static_cast<int64_t>(parts_[part].images.class_names.size());
  }
  std::vector<int64_t> labels;
  labels.reserve(crops.size());
  for (const Crop& crop : crops) {
    const auto [part, image] = find(crop.image);
    const ImageSet& images = parts_[part].images;
    labels.push_back(images.labelled() ? first[part] + images.labels.data_ptr<int64_t>()[image] : -1);
  }
  return labels;
}

at::Tensor cut_by_part(const Mixture& images, const Crop* crops, int64_t count, const CutPart& cut_part) {
  const std::vector<MixturePart>& parts = images.parts();
  if (parts.size() == 1) {
    make(parts[0], crops, count);
    return cut_part(0, crops, count);
  }
  const Split own = split(images, crops, count);
  std::vector<at::Tensor> pieces;
  for (size_t part = 0; part < parts.size(); ++part) {
    const auto size = static_cast<int64_t>(own.crops[part].size());
    if (size == 0 && (count > 0 || part > 0)) continue;  // no crops at all: an empty batch of the first part
    make(parts[part], own.crops[part].data(), size);
    pieces.push_back(cut_part(part, own.crops[part].data(), size));
  }
  if (pieces.size() == 1) return pieces[0];
  const at::Tensor all = at::cat(pieces);
  const std::vector<int64_t> rows = rows_by_part(own);
  if (std::is_sorted(rows.begin(), rows.end())) return all;
  at::Tensor order = at::tensor(rows, at::kLong);
  if (all.is_cuda()) order = order.pin_memory().to(all.device(), /*non_blocking=*/true);
  return all.index_select(0, order);
}

at::Tensor cut(const Mixture& images, const Crop* crops, int64_t count, const Augmentation& augmentation) {
  return cut_by_part(images, crops, count, [&](size_t part, const Crop* own, int64_t size) {
    return cut(images.parts()[part].images, own, size, augmentation);
  });
}

}  // namespace poem

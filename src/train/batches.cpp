#include "train/batches.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "poem/random.h"

namespace poem {
namespace {

at::Tensor uniform_draws(Stream stream, int64_t count) {
  at::Tensor draws = at::empty({count});
  for (int64_t i = 0; i < count; ++i) draws.data_ptr<float>()[i] = static_cast<float>(stream.uniform());
  return draws;
}

}  // namespace

Batches::Batches(const Config& config, const TrainingData& data, int64_t views, at::Device device,
                 const Team& team)
    : settings_(config.train),
      seed_(static_cast<uint64_t>(config.seed)),
      data_(data),
      views_(views),
      device_(device),
      team_(team),
      id_images_(data.id, device, config.train.images),
      outlier_images_(data.outliers, device, config.train.images) {}

int64_t Batches::count() const {
  return (static_cast<int64_t>(data_.train_rows.size()) + settings_.batch - 1) / settings_.batch;
}

void Batches::begin_epoch(int64_t epoch, std::vector<Crop> id, std::vector<Crop> mined) {
  epoch_ = epoch;
  id_ = std::move(id);
  mined_ = std::move(mined);
  Stream stream(seed_, "outlier-order", static_cast<uint64_t>(epoch));
  outlier_order_ = permutation(static_cast<int64_t>(mined_.size()), stream);
  // The batches take them in random order, in which a disk would read them one by one.
  outlier_images_.read_ahead(mined_.data(), static_cast<int64_t>(mined_.size()));
}

MixedBatch Batches::operator[](int64_t batch) const {
  const auto to_device = [&](const at::Tensor& x) { return x.to(device_, /*non_blocking=*/true); };
  return {cut_rows(batch, static_cast<size_t>(team_.rank()), static_cast<size_t>(team_.size())),
          to_device(labels_of(data_, id_crops_of(batch))),
          to_device(uniform_draws(
              Stream(seed_, "chance", static_cast<uint64_t>(epoch_), static_cast<uint64_t>(batch)),
              static_cast<int64_t>(outlier_crops_of(batch).size())))};
}

at::Tensor Batches::images(int64_t batch) const { return cut_rows(batch, 0, 1); }

// Every `step`-th row of the batch: ID images, then outliers.
at::Tensor Batches::cut_rows(int64_t batch, size_t first, size_t step) const {
  const std::vector<Crop> all_id = id_crops_of(batch), all_outliers = outlier_crops_of(batch);
  std::vector<Crop> id, outliers;
  for (size_t row = first; row < all_id.size() + all_outliers.size(); row += step)
    row < all_id.size() ? id.push_back(all_id[row]) : outliers.push_back(all_outliers[row - all_id.size()]);
  const at::Tensor images = id_images_.cut(id.data(), static_cast<int64_t>(id.size()), data_.id_cut);
  if (outliers.empty()) return images;
  data_.outliers.make(outliers, [] {});  // a step that was begun is finished, whatever signal comes
  return at::cat({images, outlier_images_.cut(outliers.data(), static_cast<int64_t>(outliers.size()),
                                              data_.outlier_cut)});
}

int64_t Batches::id_count(int64_t batch) const {
  return std::min(settings_.batch, static_cast<int64_t>(id_.size()) - batch * settings_.batch);
}

// All images once, then all of them again, as often as the objective wants to see each.
std::vector<Crop> Batches::id_crops_of(int64_t batch) const {
  const Crop* id = &id_[batch * settings_.batch];
  const int64_t count = id_count(batch);
  std::vector<Crop> crops(id, id + count);
  for (int64_t view = 1; view < views_; ++view) {
    for (int64_t i = 0; i < count; ++i)
      crops.push_back({id[i].image, Stream(id[i].seed, "view", static_cast<uint64_t>(view)).bits64()});
  }
  return crops;
}

// As many as belong to the batch's ID images, going round the mined set.
std::vector<Crop> Batches::outlier_crops_of(int64_t batch) const {
  std::vector<Crop> crops;
  if (mined_.empty()) return crops;
  const int64_t count = (id_count(batch) * settings_.outlier_batch + settings_.batch - 1) / settings_.batch;
  for (int64_t i = 0; i < count; ++i) {
    const auto place = static_cast<size_t>(batch * settings_.outlier_batch + i) % outlier_order_.size();
    crops.push_back(mined_[outlier_order_[place]]);
  }
  return crops;
}

at::Tensor labels_of(const TrainingData& data, const std::vector<Crop>& crops) {
  std::vector<int64_t> rows;
  for (const Crop& crop : crops) rows.push_back(crop.image);
  return data.id.labels.index_select(0, at::tensor(rows, at::kLong));
}

}  // namespace poem

#include "train/queue.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "net/weights.h"
#include "poem/error.h"
#include "poem/targets.h"
#include "posterior/team_statistics.h"

namespace poem {
Queue::Queue(const Config& config, int64_t feature_count, const Team& team)
    : fresh_(config.queue.features == QueueFeatures::kFresh),
      capacity_(config.queue.epochs),
      feature_count_(feature_count),
      seed_(static_cast<uint64_t>(config.seed)),
      posterior_(config.posterior),
      team_(team) {}

void Queue::push(int64_t epoch, const std::vector<Crop>& id, const std::vector<Crop>& mined,
                 const FeatureWalks& features) {
  Entry entry{epoch, Statistics(feature_count_), {}};
  if (fresh_) {
    entry.mined = mined;
  } else {
    add(entry.statistics, id, features.id, epoch, Side::kId, 1);
    add(entry.statistics, mined, features.outliers, epoch, Side::kOutlier, 1);
    sum_over(team_, entry.statistics);
  }
  entries_.push_back(std::move(entry));
  if (static_cast<int64_t>(entries_.size()) > capacity_) entries_.pop_front();
}

bool Queue::holds(int64_t epoch) const {
  return std::any_of(entries_.begin(), entries_.end(), [=](const Entry& e) { return e.epoch == epoch; });
}

Statistics Queue::statistics(const TrainingData& data, const FeatureWalks& features) const {
  Statistics sum(feature_count_);
  for (const Entry& entry : entries_) {
    if (fresh_) {
      add(sum, entry.mined, features.outliers, entry.epoch, Side::kOutlier, 1);
    } else {
      sum += entry.statistics;
    }
  }
  if (fresh_ && !entries_.empty()) {
    const int64_t last = entries_.back().epoch;
    add(sum, id_crops(data, seed_, last), features.id, last, Side::kId,
        static_cast<int64_t>(entries_.size()));
    sum_over(team_, sum);
  }
  return sum;
}

void Queue::add(Statistics& sum, const std::vector<Crop>& crops, const FeatureWalk& walk, int64_t epoch,
                Side side, int64_t weight) const {
  const Range part = team_.part(static_cast<int64_t>(crops.size()));
  walk({crops.begin() + part.first, crops.begin() + part.last},
       [&](int64_t first, const at::Tensor& features) {
         const at::Tensor phi = features.narrow(1, 0, feature_count_);
         const at::Tensor y =
             target_logits(posterior_, seed_, epoch, side, part.first + first, phi.size(0), weight);
         sum.add(phi, y, static_cast<double>(weight));
       });
}

void Queue::store(TensorFile& file) const {
  std::vector<int64_t> epochs;
  for (const Entry& entry : entries_) {
    const std::string name = fmt::format("queue.{}.", epochs.size());
    epochs.push_back(entry.epoch);
    if (fresh_) {
      store_crops(entry.mined, name + "mined", file);
    } else {
      file.tensors[name + "gram"] = entry.statistics.gram;
      file.tensors[name + "moment"] = entry.statistics.moment;
      file.tensors[name + "count"] = at::tensor({entry.statistics.count}, at::kDouble);
    }
  }
  file.tensors["queue.epochs"] = at::tensor(epochs, at::kLong);
}

void Queue::load(const TensorFile& file, int64_t outliers) {
  const at::Tensor epochs = file.tensor("queue.epochs");
  if (epochs.dim() != 1 || epochs.scalar_type() != at::kLong || epochs.numel() > capacity_) {
    throw Error(file.path, "tensor 'queue.epochs' is not a list of epochs", "it was made by something else");
  }
  entries_.clear();
  for (int64_t i = 0; i < epochs.numel(); ++i) {
    const std::string name = fmt::format("queue.{}.", i);
    Entry entry{epochs[i].item<int64_t>(), Statistics(feature_count_), {}};
    if (fresh_) {
      entry.mined = load_crops(file, name + "mined", outliers);
    } else {
      at::Tensor count = at::zeros({1}, at::kDouble);
      load_tensor(file, name + "gram", entry.statistics.gram);
      load_tensor(file, name + "moment", entry.statistics.moment);
      load_tensor(file, name + "count", count);
      entry.statistics.count = count.item<double>();
    }
    entries_.push_back(std::move(entry));
  }
}

}  // namespace poem

#include "train/queue.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "net/weights.h"
#include "poem/error.h"
namespace poem {
namespace {

constexpr int64_t kBlock = 50000;  // crops whose features are held at a time

}  // namespace

Queue::Queue(const Config& config, int64_t features)
    : fresh_(config.queue.features == "fresh"),
      capacity_(config.queue.epochs),
      features_(features),
      seed_(static_cast<uint64_t>(config.seed)),
      targets_{config.target, config.posterior.noise_variance,
               config.target_noise == "iid" ? TargetNoise::kIid : TargetNoise::kSingle} {}

void Queue::push(int64_t epoch, const std::vector<Crop>& id, const std::vector<Crop>& mined,
                 const FeatureExtractor& extract) {
  Entry entry{epoch, Statistics(features_), {}};
  if (fresh_) {
    entry.mined = mined;
  } else {
    add(entry.statistics, id, extract.id, epoch, Side::kId, 1);
    add(entry.statistics, mined, extract.outliers, epoch, Side::kOutlier, 1);
  }
  entries_.push_back(std::move(entry));
  if (static_cast<int64_t>(entries_.size()) > capacity_) entries_.pop_front();
}

bool Queue::holds(int64_t epoch) const {
  return std::any_of(entries_.begin(), entries_.end(), [=](const Entry& e) { return e.epoch == epoch; });
}

Statistics Queue::statistics(const TrainingData& data, const FeatureExtractor& extract) const {
  Statistics sum(features_);
  for (const Entry& entry : entries_) {
    if (fresh_) {
      add(sum, entry.mined, extract.outliers, entry.epoch, Side::kOutlier, 1);
    } else {
      sum += entry.statistics;
    }
  }
  if (fresh_ && !entries_.empty()) {
    const int64_t last = entries_.back().epoch;
    add(sum, id_crops(data, seed_, last), extract.id, last, Side::kId, static_cast<int64_t>(entries_.size()));
  }
  return sum;
}

void Queue::add(Statistics& sum, const std::vector<Crop>& crops,
                const std::function<at::Tensor(const Crop*, int64_t)>& features, int64_t epoch, Side side,
                int64_t weight) const {
  const auto size = static_cast<int64_t>(crops.size());
  for (int64_t first = 0; first < size; first += kBlock) {
    const int64_t count = std::min(kBlock, size - first);
    const at::Tensor phi = features(&crops[first], count).narrow(1, 0, features_);
    sum.add(phi, target_logits(targets_, seed_, epoch, side, first, count, weight),
            static_cast<double>(weight));
  }
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
    Entry entry{epochs[i].item<int64_t>(), Statistics(features_), {}};
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

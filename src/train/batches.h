// The batches of an epoch: crops of ID images and of the mined outliers become pixels on the device.
//
//   Batches batches(config, data, objective->views(), device);
//   batches.begin_epoch(epoch, id_crops(data, seed, epoch), mined);
//   for (int64_t i = 0; i < batches.count(); ++i) step(batches[i], rate);
#pragma once
#include <vector>

#include "dist/team.h"
#include "images/device_images.h"
#include "poem/config.h"
#include "train/data.h"
#include "train/training_step.h"

namespace poem {

class Batches {
 public:
  // `data` must outlive it. Each ID image of a batch is seen as `views` crops (poem/objective.h).
  Batches(const Config& config, const TrainingData& data, int64_t views, at::Device device,
          const Team& team = {});

  int64_t count() const;  // of an epoch; the last one may be smaller
  void begin_epoch(int64_t epoch, std::vector<Crop> id, std::vector<Crop> mined);
  MixedBatch operator[](int64_t batch) const;  // in a team, this rank's part of it. Heeds no signal
  at::Tensor images(int64_t batch) const;      // all of a batch's images

  const DeviceImages& id_images() const { return id_images_; }
  const DeviceImages& outlier_images() const { return outlier_images_; }

 private:
  at::Tensor cut_rows(int64_t batch, size_t first, size_t step) const;
  std::vector<Crop> id_crops_of(int64_t batch) const;
  std::vector<Crop> outlier_crops_of(int64_t batch) const;
  int64_t id_count(int64_t batch) const;

  const TrainSettings settings_;
  const uint64_t seed_;
  const TrainingData& data_;
  const int64_t views_;
  const at::Device device_;
  const Team team_;
  DeviceImages id_images_, outlier_images_;
  int64_t epoch_ = 0;
  std::vector<Crop> id_, mined_;
  std::vector<int64_t> outlier_order_;
};

// The labels of crops of ID images, int64.
at::Tensor labels_of(const TrainingData& data, const std::vector<Crop>& crops);

}  // namespace poem

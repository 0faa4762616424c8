// The queue: the data of the last epochs, from which the posterior is computed.
//
// `stored` keeps each epoch's statistics as they were when the epoch ended (the paper's words); `fresh` keeps
// which crops were mined and takes their features anew (the authors' code), the ID images once with the
// weight of their repeats.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "core/safetensors.h"
#include "dist/team.h"
#include "poem/config.h"
#include "poem/crops.h"
#include "poem/mining.h"
#include "poem/posterior.h"
#include "poem/targets.h"
#include "train/data.h"

namespace poem {

// How the features of crops of ID images and of outliers are taken.
struct FeatureWalks {
  FeatureWalk id, outliers;
};

class Queue {
 public:
  // In a team each rank takes the features of its part; all have the statistics of all.
  Queue(const Config& config, int64_t feature_count, const Team& team = {});

  // After epoch t: what it trained on joins, the oldest epoch leaves.
  void push(int64_t epoch, const std::vector<Crop>& id, const std::vector<Crop>& mined,
            const FeatureWalks& features);

  bool holds(int64_t epoch) const;

  // ΦΦᵀ and Φy of all that is queued. Fresh features are those of `data`'s ID crops of the last epoch queued.
  Statistics statistics(const TrainingData& data, const FeatureWalks& features) const;

  void store(TensorFile& file) const;
  void load(const TensorFile& file, int64_t outliers);  // how many there are

 private:
  struct Entry {
    int64_t epoch;
    Statistics statistics;    // stored
    std::vector<Crop> mined;  // fresh
  };
  // What this rank adds to the sum.
  void add(Statistics& sum, const std::vector<Crop>& crops, const FeatureWalk& walk, int64_t epoch, Side side,
           int64_t weight) const;

  bool fresh_;
  int64_t capacity_, feature_count_;
  uint64_t seed_;
  PosteriorSettings posterior_;
  Team team_;
  std::deque<Entry> entries_;
};

}  // namespace poem

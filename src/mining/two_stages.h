// Two-stage mining: a cheap look at the whole pool picks candidates, and only these go through the network as
// it is.
//
//   TwoStages stages = score_in_two_stages(miner, shard);   // task.network.first_look must be set
//   take_best(shard, stages.scores.rank);                   // only candidates
//
// The first stage predicts what the miner ranks by as a linear function of the features that
// NetworkView::first_look takes. The function is fitted in each epoch on a random part of the pool, whose
// scores the miner computes. Nothing is kept between epochs. Another random part, on which nothing was
// fitted, shows how many of the best outliers the candidates contain.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "mining/shard.h"

namespace poem {

// Images of the pool, as a share of it, that are scored for the fit and for the measurement together.
double two_stage_sample(double pool_size);

// What scoring a pool takes, relative to the network on all of it. The first stage takes the share
// `first_look` of the network's work per image and passes on `candidates` of the pool; 1: one stage.
double scoring_work(double candidates, double first_look, double pool_size);

// What a share of something is, measured on a sample.
struct MeasuredShare {
  double value, error;  // the error is a standard deviation, and above 0 even if the value is 0 or 1
};
MeasuredShare measured_share(double found, double of);

struct TwoStages {
  PoolScores scores;                // of the shard's entries; those of the candidates are known
  std::vector<int64_t> candidates;  // entries of the shard, ascending
  Shard sample;                     // the second random part: it stands for the pool in diagnostics
  PoolScores sample_scores;         // of all its entries
  // Of the best outliers (as many as are mined or skipped by rank), the share that is among the candidates.
  // Empty if the sample is too small to have any of them.
  std::optional<MeasuredShare> recall;
};

TwoStages score_in_two_stages(const Miner& miner, const Shard& shard);

}  // namespace poem

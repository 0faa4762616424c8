// How outliers are chosen. A miner ranks the pool. mine() does what all miners have in common: it limits
// repeats, takes the N best and computes diagnostics.
//
//   MiningTask task;
//   Stream seeds(/*seed=*/0, "my pool");
//   for (int64_t image = 0; image < outliers.size(); ++image) task.pool.push_back({image, seeds.bits64()});
//   task.settings.select = 1000;
//   task.network.features = …;  // calls Network::features() on cut() of the crops, block after block
//   task.posterior = &posterior;
//   Mined mined = mine(*make_miner("thompson"), task, last_mined);
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "poem/crops.h"
#include "poem/posterior.h"

namespace poem {

// Who chooses the outliers of the first epoch.
enum class FirstChoice { kMiner, kRandom };

struct MiningSettings {
  std::string miner = "thompson";
  int64_t pool = 400000;  // S
  int64_t select = 0;     // N; 0: as many as an epoch trains on
  int64_t until = 0;      // epochs after which mining stops and the last mined set stays; 0: never
  FirstChoice first = FirstChoice::kMiner;
  int64_t max_per_image = 0;  // how many crops of one image may be mined; 0: any number
  double skip = 0;            // q, the share of the pool that is skipped before the N are taken
  double random = 0;          // the share of the N that is taken at random from the rest of the pool
  double candidates = 1;      // the share of the pool that a first stage passes on; 1: there is one stage

  int64_t skip_count(size_t pool_size) const;       // how many of the pool are skipped
  int64_t random_count() const;                     // how many of the N are taken at random
  int64_t ranked_count(size_t pool_size) const;     // how many are skipped or mined by rank
  int64_t candidate_count(size_t pool_size) const;  // how many the first stage passes on
};

// Calls visit(first, features) for block after block of the crops, so that the features of all crops are
// never in memory at once: `features` (n×m on the network's device, without gradient) are
// Network::features() of crops[first] … crops[first + n − 1].
using FeatureVisit = std::function<void(int64_t first, const at::Tensor& features)>;
using FeatureWalk = std::function<void(const std::vector<Crop>& crops, const FeatureVisit& visit)>;

// What a miner may ask of the network in training.
struct NetworkView {
  FeatureWalk features;          // of crops of outliers
  FeatureWalk first_look;        // other features, of less work, that the first of two stages ranks by
  int64_t first_look_count = 0;  // how many features these are
  std::function<at::Tensor(const at::Tensor&)> logits;    // from features: n×outputs
  std::function<at::Tensor(const at::Tensor&)> id_score;  // from features: the run's score, n; higher is ID
};

// What a miner knows about an epoch.
struct MiningTask {
  std::vector<Crop> pool;   // with max_per_image, crops of one image must be neighbours
  MiningSettings settings;  // `select` must be N itself: 0 has no special meaning here
  NetworkView network;
  const Posterior* posterior = nullptr;  // the prior if the miner does not use a posterior
  int64_t batch = 64;                    // outliers that a training step takes
  uint64_t seed = 0;
  int64_t epoch = 0;
};

struct PoolScores {
  std::vector<float> rank;       // one per pool entry; the largest are mined
  std::vector<float> logit;      // f(x) = wᵀφ(x); empty if the miner has no w
  std::vector<float> other;      // the rank by an independent draw of w; empty if there is no w
  std::optional<double> spread;  // standard deviation of wᵀφ over draws, averaged over the pool
  std::vector<float> length;     // ‖φ(x)‖; empty if the miner does not know it
  std::vector<int64_t>
      cluster;  // to which of a few groups of similar outliers it belongs, from 0; may be empty
};

class Miner {
 public:
  virtual ~Miner() = default;
  virtual bool uses_posterior() const { return false; }
  virtual bool uses_features() const { return true; }
  // Whether an entry's rank follows from the entry alone, whatever else is in the pool. Several processes
  // then rank a part of the pool each; otherwise each of them ranks all of it.
  virtual bool ranks_alone(const MiningTask& /*task*/) const { return false; }
  // Whether it asks for NetworkView::id_score, which the run's score must allow.
  virtual bool uses_score() const { return false; }
  virtual PoolScores score(const MiningTask& task) const = 0;
};

std::unique_ptr<Miner> make_miner(const std::string& name);
std::vector<std::string> miner_names();

// Adds a miner of the caller's own: mining.miner then takes its name. A name that is taken is an Error.
// Register before the first use and from one thread.
using MinerFactory = std::function<std::unique_ptr<Miner>()>;
void register_miner(const std::string& name, MinerFactory make);

// The share of one class of outliers, or of one of their sources, in the pool and in the mined set.
struct ClassShare {
  std::string name;
  double pool, mined;
};

// Figures about the choice, logged every epoch. Those that do not apply to this miner or epoch are empty.
struct MiningDiagnostics {
  std::optional<double> pool_abs_logit, mined_abs_logit;  // mean |wᵀφ|
  std::optional<double> pool_p_outlier, mined_p_outlier;  // mean sigmoid(wᵀφ)
  std::optional<double> pool_length, mined_length;        // mean ‖φ‖
  std::optional<double> pool_clusters, mined_clusters;    // effective number of clusters: exp of the entropy
  std::optional<double> spread;                           // of wᵀφ over draws, mean over the pool
  std::optional<double> draw_overlap;  // share of the selection that another draw selects too
  std::optional<double> last_overlap;  // share of the distinct images that the last epoch mined too
  // With two stages: the share of the best outliers that the first stage found, and its standard error.
  std::optional<double> recall, recall_error;
  int64_t distinct_images = 0;
  std::vector<ClassShare> classes;  // the most mined classes, at most 24, if the outliers have labels
  std::vector<ClassShare> sources;  // in the order of data.outliers; empty if there is only one
};

struct Mined {
  std::vector<Crop> crops;  // ordered as in the pool
  MiningDiagnostics diagnostics;
};

// The shares of the classes of labelled outliers, by descending share of the mined set; empty without labels.
std::vector<ClassShare> class_shares(const ImageSet& outliers, const std::vector<Crop>& pool,
                                     const std::vector<Crop>& mined);

// Whether the miner can rank candidates of a first stage: an outlier's rank does not depend on the others.
bool takes_candidates(const Miner& miner);

// An Error if settings.select is more than the pool, or the candidates of a first stage, offer. Before there
// is a pool, settings.pool says how many entries it will have.
void check_select(const std::vector<Crop>& pool, const MiningSettings& settings);
void check_select(const MiningSettings& settings);

// `last` is the set mined in the last epoch, or empty. An N that is larger than the pool offers is an Error.
Mined mine(const Miner& miner, const MiningTask& task, const std::vector<Crop>& last);

}  // namespace poem

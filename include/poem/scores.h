// A score ranks test inputs: the higher, the more likely the input is ID. A score is fitted once, on ID
// training data alone. After that it scores batches of any inputs.
//
//   std::unique_ptr<Score> knn = make_fitted_score("knn", training, /*only=*/true);
//   at::Tensor scores = (*knn)(batch);   // float32, one per row
//
// docs/extending.md shows how to add a score.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "poem/error.h"
#include "poem/images.h"

namespace poem {

class Network;
struct TensorFile;  // internal: a score need not know more of it

// What a network computes from n inputs. All tensors are float32 on the CPU, except `pixels`.
struct Batch {
  at::Tensor logits;           // n×K, of the classes
  at::Tensor rejects;          // n×R, logits of outputs beyond the classes; R is 0 for most networks
  at::Tensor features;         // n×m, φ(x)
  at::Tensor pixels;           // n×C×H×W on the network's device; undefined if only features are known
  Network* network = nullptr;  // in eval mode; null if only features are known
};

// The network's last layer if it is linear: logits = features · weightᵀ + bias, of the K classes.
struct Head {
  at::Tensor weight, bias;  // K×m and K, float32 on the CPU

  at::Tensor operator()(const at::Tensor& features) const;
};

// What scores are fitted on: ID data only.
struct Training {
  at::Tensor features, labels;  // of the training inputs: float32 N×m and int64 N; only with kTraining
  Head head;                    // undefined if the last layer is not linear
  int64_t classes = 0;
  // From here on empty if only features are known.
  Network* network = nullptr;
  ImageSet images, held_out;  // ID images that the network was trained on, and ID images that it was not
  int64_t size = 0;           // side of the network's input in pixels
};

// Thrown by Score::fit() if the score cannot be fitted on the data: "all features are equal".
struct Unfit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Score {
 public:
  virtual ~Score() = default;
  const std::string& name() const { return name_; }
  const std::string& problem() const {
    return problem_;
  }  // why it could not be fitted; all scores are then NaN

  virtual void fit(const Training&) {}                          // may throw Unfit
  virtual at::Tensor operator()(const Batch& batch) const = 0;  // float32, n

  // The same scores by LibTorch's operators alone, which `poem export` can record. Override it if operator()
  // works on the numbers themselves, or on blocks of the batch.
  virtual at::Tensor formula(const Batch& batch) const { return (*this)(batch); }

  // Writes what fit() found to a detector's file and reads it, each tensor of state() as `prefix` + its name.
  void store(TensorFile& file, const std::string& prefix);
  virtual void load(const TensorFile& file, const std::string& prefix);

 protected:
  // The tensors that fit() sets, by name. They are saved with the detector.
  using State = std::vector<std::pair<std::string, at::Tensor*>>;
  virtual State state() { return {}; }

 private:
  friend std::unique_ptr<Score> make_score(const std::string& name);
  friend std::unique_ptr<Score> make_fitted_score(const std::string&, const Training&, bool);
  std::string name_, problem_;
};

// What a score needs in addition to the network's outputs and features. Needs are combined with |.
enum Need : unsigned {
  kNothing = 0,
  kTraining = 1,  // fit(): features and labels of ID training inputs
  kNetwork = 2,   // the network itself and pixels, for gradients or inner layers
  kHeldOut = 4,   // fit(): ID images that were not trained on
  kRejects = 8,   // outputs beyond the classes
  kClasses = 16,  // outputs for the classes; a contrastive network has none
  kLinear = 32,   // class outputs that are linear in the features
  kHead = 64,     // fit(): weight and bias of that linear layer
};

// For needs(): whether a score needs ID images, and whether it must be fitted.
constexpr unsigned kImages = kTraining | kHeldOut;
constexpr unsigned kFitted = kImages | kHead;

// A score that is not fitted yet. An unknown name is an Error that lists the known ones.
std::unique_ptr<Score> make_score(const std::string& name);

// A fitted score. If the score cannot be fitted on the data, `only` decides: true throws UnfitScore; false
// returns a score that gives the reason in problem().
struct UnfitScore : Error {
  using Error::Error;
};
std::unique_ptr<Score> make_fitted_score(const std::string& name, const Training& training, bool only);

bool needs(const std::string& name, unsigned any_of);  // whether the score has at least one of these Needs
std::vector<std::string> score_names();

// Adds a score of the caller's own: `score` in a config then takes its name. `needs` are its Needs,
// combined with |. A name that is taken is an Error. Register before the first use and from one thread.
using ScoreFactory = std::function<std::unique_ptr<Score>()>;
void register_score(const std::string& name, ScoreFactory make, unsigned needs);

// The names without repeats; "all" stands for every score that needs no more than `available`, which is Needs
// combined with |. An unknown name is an Error, and so is a score that needs more. The score `fitted` is
// fitted already and needs nothing.
std::vector<std::string> choose_scores(const std::vector<std::string>& names, unsigned available,
                                       const std::string& fitted = "");

// A tensor of scores as a vector.
std::vector<float> to_floats(const at::Tensor& scores);
std::vector<double> to_doubles(const at::Tensor& scores);

}  // namespace poem

// What ranks test inputs: higher means ID. A score is fitted once, on ID training data alone, and then scores
// batches of anything.
//
//   std::unique_ptr<Score> knn = make_score("knn");
//   knn->fit(training);                      // does nothing where !needs("knn", kFitted)
//   at::Tensor scores = (*knn)(batch);       // float32, one a row
//
// A new score is one file in detect/scores/ and two lines in score.cpp: docs/extending.md.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "poem/error.h"
#include "poem/images.h"

namespace poem {

class Network;
struct TensorFile;

// What a network says of n inputs. float32 on the CPU, but for the pixels.
struct Batch {
  at::Tensor logits;    // n×K, of the classes
  at::Tensor rejects;   // n×R, logits of outputs beyond the classes; R is 0 for most networks
  at::Tensor features;  // n×m, φ(x)
  at::Tensor pixels;    // n×C×H×W on the network's device; not defined where only features are known
  Network* network = nullptr;  // the same, in eval mode
};

// The linear last layer: logits = features · weightᵀ + bias, of the K classes.
struct Head {
  at::Tensor weight, bias;  // K×m and K, float32 on the CPU

  at::Tensor operator()(const at::Tensor& features) const;
};

// What scores are fitted on: ID data only.
struct Training {
  at::Tensor features, labels;  // of the training inputs: float32 N×m and int64 N; only for kTraining
  Head head;                    // not defined where the last layer is not linear
  int64_t classes = 0;
  Network* network = nullptr;  // null where only features are known; what follows is then empty
  ImageSet images, held_out;   // those trained on, and ID images that were not
  int64_t size = 0;            // side of the network's input
};

class Score {
 public:
  virtual ~Score() = default;
  const std::string& name() const { return name_; }
  const std::string& problem() const { return problem_; }  // why it could not be fitted; it then scores NaN

  virtual void fit(const Training&) {
  }  // throws Unfit (detect/fit_checks.h) where the data means nothing to it
  virtual at::Tensor operator()(const Batch& batch) const = 0;  // float32 n

  // What fit() found, to and from a file, under a prefix.
  void store(TensorFile& file, const std::string& prefix);
  virtual void load(const TensorFile& file, const std::string& prefix);

 protected:
  using State = std::vector<std::pair<std::string, at::Tensor*>>;
  virtual State state() { return {}; }

 private:
  friend std::unique_ptr<Score> make_score(const std::string& name);
  friend std::unique_ptr<Score> make_fitted_score(const std::string&, const Training&, bool);
  std::string name_, problem_;
};

// What a score cannot do without, beside logits and features.
enum Need : unsigned {
  kNothing = 0,
  kTraining = 1,  // fit(): features and labels of ID training inputs
  kNetwork = 2,   // the network itself and pixels: gradients or layers
  kHeldOut = 4,   // fit(): ID images that were not trained on
  kRejects = 8,   // outputs beyond the classes
  kClasses = 16,  // outputs for the classes, which a contrastive network has not
  kLinear = 32,   // that they are linear in the features
  kHead = 64,     // fit(): W and b of that layer
};

constexpr unsigned kImages = kTraining | kHeldOut;  // Needs of scores that ID images must be read for
constexpr unsigned kFitted = kImages | kHead;       // Needs of scores that must be fitted

// An unknown name is an Error that lists the known ones.
std::unique_ptr<Score> make_score(const std::string& name);
struct UnfitScore : Error {
  using Error::Error;
};

// Fitted on the data. If that means nothing to the score: an UnfitScore where it is the only one asked for,
// else a score that says why in problem().
std::unique_ptr<Score> make_fitted_score(const std::string& name, const Training& training, bool only);
bool needs(const std::string& name, unsigned any_of);
std::vector<std::string> score_names();

// The names, each once; "all" stands for every score that needs no more than `available`, a sum of Needs. A
// score that needs what is not available and an unknown name are an Error, the latter with a list of what is
// available. The score `fitted` needs nothing any more.
std::vector<std::string> choose_scores(const std::vector<std::string>& names, unsigned available,
                                       const std::string& fitted = "");

// A tensor of scores, float32 as they are, and float64 as the metrics take them.
std::vector<float> to_floats(const at::Tensor& scores);
std::vector<double> to_doubles(const at::Tensor& scores);

}  // namespace poem

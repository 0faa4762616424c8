#include "poem/scores.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "core/registry.h"
#include "core/safetensors.h"
#include "detect/fit_checks.h"

namespace poem {

// One function per score, in the files of detect/scores/.
std::unique_ptr<Score> make_ash();
std::unique_ptr<Score> make_dice();
std::unique_ptr<Score> make_energy();
std::unique_ptr<Score> make_fdbd();
std::unique_ptr<Score> make_gen();
std::unique_ptr<Score> make_knn();
std::unique_ptr<Score> make_mahalanobis();
std::unique_ptr<Score> make_maxlogit();
std::unique_ptr<Score> make_mds();
std::unique_ptr<Score> make_msp();
std::unique_ptr<Score> make_odin();
std::unique_ptr<Score> make_react();
std::unique_ptr<Score> make_reject();
std::unique_ptr<Score> make_reject_energy();
std::unique_ptr<Score> make_rmds();
std::unique_ptr<Score> make_scale();
std::unique_ptr<Score> make_ssd();
std::unique_ptr<Score> make_vim();

namespace {

struct Entry {
  ScoreFactory make;
  unsigned needs;
};

constexpr unsigned kOfHead = kClasses | kLinear | kHead;  // Needs of scores that use W and b

Registry<Entry>& scores() {
  static Registry<Entry> scores(
      "score", {
                   {"msp", {make_msp, kClasses}},
                   {"maxlogit", {make_maxlogit, kClasses}},
                   {"energy", {make_energy, kClasses | kLinear}},
                   {"mds", {make_mds, kTraining}},
                   {"rmds", {make_rmds, kTraining}},
                   {"knn", {make_knn, kTraining}},
                   {"react", {make_react, kTraining | kOfHead}},
                   {"dice", {make_dice, kTraining | kOfHead}},
                   {"ash", {make_ash, kOfHead}},
                   {"scale", {make_scale, kOfHead}},
                   {"vim", {make_vim, kTraining | kOfHead}},
                   {"gen", {make_gen, kClasses}},
                   {"fdbd", {make_fdbd, kTraining | kOfHead}},
                   {"ssd", {make_ssd, kTraining}},
                   {"reject", {make_reject, kRejects}},
                   {"reject_energy", {make_reject_energy, kRejects}},
                   {"odin", {make_odin, kClasses | kNetwork | kHeldOut}},
                   {"mahalanobis", {make_mahalanobis, kClasses | kTraining | kNetwork | kHeldOut}},
               });
  return scores;
}

void check_needs(const std::string& name, unsigned available) {
  const unsigned missing = scores().find(name).needs & ~available;
  const std::string where = "score '" + name + "'";
  if (missing & kClasses) {
    throw Error(where, "needs outputs for the classes, which this network does not have",
                "use a score of the features: ssd, mds, rmds, knn");
  }
  if (missing & (kLinear | kHead)) {
    throw Error(where, "needs a network whose last layer is linear",
                "use a score of the outputs: msp, maxlogit, gen");
  }
  if (missing & kRejects) {
    throw Error(where, "needs outputs beyond the classes, which this network does not have",
                "set score: energy, or train with objective.name: outlier_class or sofl");
  }
  if (missing & kNetwork) {
    throw Error(where, "needs the network's gradients and layers, which saved features lack",
                "use poem eval on a run or a detector");
  }
  const char* find_images =
      "name the run's folder instead of the detector's file, or give ID training images with option train";
  if (missing & kTraining) throw Error(where, "needs features of ID training images", find_images);
  if (missing & kHeldOut) {
    throw Error(where, "needs ID images that were not trained on",
                available & kTraining
                    ? "train with data.validation above 0, or give option train at least 20 images"
                    : find_images);
  }
}

// Stands for a score that could not be fitted.
class NoScore : public Score {
 public:
  at::Tensor operator()(const Batch& batch) const override {
    return at::full({batch.features.size(0)}, std::numeric_limits<float>::quiet_NaN());
  }
};

}  // namespace

at::Tensor Head::operator()(const at::Tensor& features) const { return at::linear(features, weight, bias); }

void Score::store(TensorFile& file, const std::string& prefix) {
  for (const auto& [name, tensor] : state()) file.tensors[prefix + name] = *tensor;
}

void Score::load(const TensorFile& file, const std::string& prefix) {
  for (const auto& [name, tensor] : state()) {
    *tensor = file.tensor(prefix + name);
    if (!at::isfinite(*tensor).all().item<bool>())
      throw Error(file.path, "tensor '" + prefix + name + "' contains a value that is not finite",
                  "copy it again, or train again");
  }
}

std::unique_ptr<Score> make_score(const std::string& name) {
  std::unique_ptr<Score> score = scores().find(name).make();
  score->name_ = name;
  return score;
}

void register_score(const std::string& name, ScoreFactory make, unsigned needs) {
  if (name == "all") throw Error("score", "'all' means every score", "choose another name");
  scores().add(name, {std::move(make), needs});
}

std::unique_ptr<Score> make_fitted_score(const std::string& name, const Training& training, bool only) {
  std::unique_ptr<Score> score = make_score(name);
  try {
    if (needs(name, kTraining)) check_varies(training.features);
    score->fit(training);
  } catch (const Unfit& e) {
    if (only)
      throw UnfitScore(
          "score '" + name + "'", std::string("cannot be fitted: ") + e.what(),
          "give other training data, or use a score that needs none: msp, maxlogit, energy, gen");
    score = std::make_unique<NoScore>();
    score->name_ = name;
    score->problem_ = std::string("cannot be fitted: ") + e.what();
  }
  return score;
}

bool needs(const std::string& name, unsigned any_of) { return scores().find(name).needs & any_of; }

std::vector<std::string> score_names() { return scores().names(); }

std::vector<std::string> choose_scores(const std::vector<std::string>& names, unsigned available,
                                       const std::string& fitted) {
  const std::vector<std::string> known = scores().names();
  std::vector<std::string> all;
  std::copy_if(known.begin(), known.end(), std::back_inserter(all), [&](const std::string& name) {
    return name == fitted || !(scores().find(name).needs & ~available);
  });
  std::vector<std::string> chosen;
  const auto add = [&](const std::string& name) {
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.push_back(name);
  };
  for (const std::string& name : names) {
    if (name == "all") {
      std::for_each(all.begin(), all.end(), add);
      continue;
    }
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error("score", "is '" + name + "'", suggestion(name, all) + "there are: " + listed(all));
    }
    if (name != fitted) check_needs(name, available);
    add(name);
  }
  return chosen;
}

std::vector<float> to_floats(const at::Tensor& scores) {
  const at::Tensor values = scores.to(at::kFloat).contiguous();
  return {values.data_ptr<float>(), values.data_ptr<float>() + values.numel()};
}

std::vector<double> to_doubles(const at::Tensor& scores) {
  const at::Tensor values = scores.to(at::kDouble).contiguous();
  return {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()};
}

}  // namespace poem

// Evaluates a detector on test sets.
//
//   TestData test;
//   test.id = read_images("test/");
//   test.ood.push_back({"street", read_images("street/")});
//   const Results results = evaluate(detector, "energy", test);
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "poem/balance.h"
#include "poem/detector.h"
#include "poem/results.h"

namespace poem {

// What a detector is tested on: labelled ID images, and sets of OOD images by name.
struct TestSet {
  std::string name;
  ImageSet images;
};
struct TestData {
  ImageSet id;
  std::vector<TestSet> ood;
};

// Throws an Error unless all sets have this number of channels and every class of `test.id` is among
// `class_names`. Classes are matched by name. If a name is not found, but the images or the detector have
// only the names 0, 1, 2, …, labels count as positions in `class_names`.
void check_fits(int64_t channels, const std::vector<std::string>& class_names, const TestData& test);

// The labels of the images as positions in `class_names` (int64 N), matched in the same way.
at::Tensor labels_among(const ImageSet& images, const std::vector<std::string>& class_names);

// The scores and predictions of the images of one set, in order.
struct ScoredSet {
  std::string name;
  std::vector<std::vector<float>> scores;  // one list per score
  at::Tensor predicted;  // int64 N, the most likely class; undefined if the network does not classify
};

// Scores the ID images, which come first under the name "id", and every OOD set. A single forward pass over a
// set serves all scores. A set that does not fit the network is an Error.
std::vector<ScoredSet> score_sets(const Detector& detector, const std::vector<std::shared_ptr<Score>>& scores,
                                  const TestData& test);

// One result per score. It has accuracy and confusion if the ID images have labels and the network classifies
// (confusion only with at most 1,000 classes), and the counts at the threshold if the score is the detector's
// own. The balance changes none of these three.
std::vector<Results> summarise(const std::vector<ScoredSet>& sets, const Detector& detector,
                               const std::vector<std::shared_ptr<Score>>& scores, const ImageSet& id,
                               const std::optional<Balance>& balance = std::nullopt);

// score_sets() and summarise() in one call.
std::vector<Results> evaluate(const Detector& detector, const std::vector<std::shared_ptr<Score>>& scores,
                              const TestData& test, const std::optional<Balance>& balance = std::nullopt);

// The same for one score: the detector's own, or another that needs no training images.
Results evaluate(const Detector& detector, const std::string& score, const TestData& test);

}  // namespace poem

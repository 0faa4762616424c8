// A detector against test sets.
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

// An Error unless all sets have so many channels and every class of `id` is among `class_names`. Classes are
// matched by name; where one side has no names but 0, 1, 2, …, labels are positions.
void check_fits(int64_t channels, const std::vector<std::string>& class_names, const TestData& test);

// The labels of the images as positions in `class_names`, matched likewise.
at::Tensor labels_among(const ImageSet& images, const std::vector<std::string>& class_names);

// What the figures are computed from, image by image.
struct ScoredSet {
  std::string name;
  std::vector<std::vector<float>> scores;  // one list a score
  at::Tensor predicted;  // int64, the most likely class; undefined where the network does not classify
};

// Scores the ID images, which come first as "id", and every OOD set. One forward pass over a set serves all
// scores. Sets that do not fit the network are an Error.
std::vector<ScoredSet> score_sets(const Detector& detector, const std::vector<std::shared_ptr<Score>>& scores,
                                  const TestData& test);

// One result a score. Labelled ID images give the accuracy and the confusions, and the detector's own score
// what its threshold keeps, whatever the balance.
std::vector<Results> summarise(const std::vector<ScoredSet>& sets, const Detector& detector,
                               const std::vector<std::shared_ptr<Score>>& scores, const ImageSet& id,
                               const std::optional<Balance>& balance = std::nullopt);

// Both at once.
std::vector<Results> evaluate(const Detector& detector, const std::vector<std::shared_ptr<Score>>& scores,
                              const TestData& test, const std::optional<Balance>& balance = std::nullopt);

// The same for the detector's own score, or another that needs no training images.
Results evaluate(const Detector& detector, const std::string& score, const TestData& test);

}  // namespace poem

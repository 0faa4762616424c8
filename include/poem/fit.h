// Fits scores on a detector's ID images.
//
//   const IdImages images = load_id_images("runs/mine");   // poem/training.h
//   auto scores = fit_scores({"knn", "vim"}, detector, images);
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "poem/detector.h"
#include "poem/scores.h"

namespace poem {

struct IdImages {
  ImageSet train;     // labelled; what the network was trained on, without augmentation
  ImageSet held_out;  // ID images that it was not trained on; may be undefined
};

// The rows of the network's last layer that belong to the classes; undefined if the layer is not linear.
Head head_of(const Detector& detector);

// The Needs that a detector and these images meet, combined with |.
unsigned available(const Detector& detector, const std::optional<IdImages>& images);

// The scores of these names in order; "all" means all scores whose needs are met. The detector's own score is
// returned as it was saved. A single forward pass over the training images serves all others. A score whose
// needs are not met is an Error. A score that cannot be fitted on the images is an Error if it is the only
// one; otherwise it gives the reason in problem().
std::vector<std::shared_ptr<Score>> fit_scores(const std::vector<std::string>& names,
                                               const Detector& detector,
                                               const std::optional<IdImages>& images);

}  // namespace poem

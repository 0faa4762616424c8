// Scores fitted on a detector's ID images.
//
//   auto scores = fit_scores({"knn", "vim"}, detector, IdImages{train, held_out});
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
  ImageSet held_out;  // not defined, or ID images it was not trained on
};

// The rows of the network's last layer that belong to the classes; not defined where it is not linear.
Head head_of(const Detector& detector);

// The sum of Needs that a detector and these images meet.
unsigned available(const Detector& detector, const std::optional<IdImages>& images);

// The scores of these names (or for "all" of all that can be had), in order. The detector's own comes as it
// was saved; one forward pass over the training images serves the others. A score that needs what is missing
// is an Error; one that cannot be fitted on the images is one too if it is the only one, else it says why in
// problem().
std::vector<std::shared_ptr<Score>> fit_scores(const std::vector<std::string>& names,
                                               const Detector& detector,
                                               const std::optional<IdImages>& images);

}  // namespace poem

// Pictures of what a run saw: contact sheets gallery/NAME.png, each with a list NAME.json of what its tiles
// show (docs/run-folder.md). Points of the two-dimensional world have no pictures: nothing is written then.
#pragma once
#include <string>
#include <vector>

#include "poem/detector.h"
#include "poem/evaluate.h"
#include "train/data.h"

namespace poem {

// mined-0001 for the first epoch: some of the outliers it trains on, spread over the mined set.
void write_mined_sheet(const std::string& folder, int64_t epoch, const std::vector<Crop>& mined,
                       const TrainingData& data);

// Of the test images, by the first score of `sets` (ID first, as score_sets() has them): OOD taken for ID
// with the highest scores (ood-as-id), ID images with the lowest (id-as-ood), misclassified ones with the
// highest (misclassified), and those nearest to the threshold (near-threshold).
void write_test_sheets(const std::string& folder, const Detector& detector, const TestData& test,
                       const std::vector<ScoredSet>& sets);

void remove_test_sheets(const std::string& folder);  // where there are any

}  // namespace poem

// The images of a run, and the crops of them that an epoch sees.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/safetensors.h"
#include "images/mixture.h"
#include "poem/config.h"
#include "poem/crops.h"
#include "poem/evaluate.h"
#include "poem/images.h"
#include "poem/read.h"

namespace poem {

struct TrainingData {
  ImageSet id;                           // all labelled training images
  std::vector<int64_t> train_rows;       // those that are trained on
  std::vector<int64_t> validation_rows;  // those held out (data.validation), at random by the seed; every
                                         // class of which there are images keeps one in train_rows
  Mixture outliers;                      // empty with mining.miner none
  Augmentation id_cut, outlier_cut;
};

// How many of so many ID images are held out of training. Without a share 2 %, but of few images up to a
// fifth, so that a threshold rests on 400 where they can be had.
int64_t held_out_count(const std::optional<double>& share, int64_t images);

// How the sources of a config are read.
ReadOptions read_options(const DataSettings& settings);

// Throws an Error for mistakes in the config's sources, test sets included, that show before an image is
// read.
void check_sources(const Config& config);

// Reads what the config names and checks that it fits together; each mismatch is an Error.
TrainingData load_training_data(const Config& config);

// The ID crops of an epoch, one per image of train_rows, in the order in which they are trained on.
std::vector<Crop> id_crops(const TrainingData& data, uint64_t seed, int64_t epoch);

// (image, crop seed) pairs as one int64 n×2 tensor: images themselves are never stored.
void store_crops(const std::vector<Crop>& crops, const std::string& name, TensorFile& file);
std::vector<Crop> load_crops(const TensorFile& file, const std::string& name,
                             int64_t images);  // an Error for a crop of none of them

// `ood` entries are NAME=SOURCE. A missing '=', an empty or a repeated name, and what check_source() finds,
// is an Error before the first image is read.
void check_test_sources(const std::string& id, const std::vector<std::string>& ood,
                        const ReadOptions& options);
TestData load_test_data(const std::string& id, const std::vector<std::string>& ood,
                        const ReadOptions& options);

}  // namespace poem

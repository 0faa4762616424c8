// The network of a training before its first step: what it looks like, and what it learns without gradients.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "images/device_images.h"
#include "poem/config.h"
#include "poem/network.h"
#include "poem/objective.h"
#include "train/data.h"

namespace poem {

// The network that a config asks for.
NetworkSpec network_spec(const Config& config, const Objective& objective, int64_t channels, int64_t pixels,
                         int64_t classes);
NetworkSpec network_spec(const Config& config, const Objective& objective, const ImageSet& id);
// The same before any image is read: two classes, and as many channels as the config normalises.
NetworkSpec likely_spec(const Config& config, const Objective& objective);

// The network of the spec as the config trains it.
std::unique_ptr<Network> training_network(const Config& config, const NetworkSpec& spec);

// The file of network.init, found from data.folder: of a run it is the detector. Empty if the config names
// none. An Error if there is no such file.
std::string weights_file(const Config& config);

// Warns if the network is made for larger images than those of the config.
void warn_of_small_images(const Config& config, const Network& network);

// Some networks (net/density.cpp) learn from crops such as they will see, before any training.
void prepare_network(Network& network, const TrainingData& data, uint64_t seed, at::Device device);

// BatchNorm's running statistics start at 0 and 1, with which features explode through the layers. Before the
// first scoring, a pass over the ID images in training mode sets them: several passes over few images, since
// each batch moves them by a tenth. `after_batch` gets the number of images of each batch.
void calibrate_batch_norm(Network& network, const DeviceImages& images, const std::vector<Crop>& crops,
                          const Augmentation& augmentation, int64_t batch,
                          const std::function<void(int64_t)>& after_batch);

}  // namespace poem

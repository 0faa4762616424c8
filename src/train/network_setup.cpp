#include "train/network_setup.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "core/interrupts.h"
#include "images/pool.h"
#include "net/weights.h"
#include "poem/error.h"
#include "train/run_folder.h"

namespace poem {

NetworkSpec network_spec(const Config& config, const Objective& objective, int64_t channels, int64_t pixels,
                         int64_t classes) {
  NetworkSpec spec = config.network;
  spec.head = objective.head();
  spec.components = config.objective.components;
  spec.density_rate = config.objective.density_rate;
  spec.channels = channels;
  spec.pixels = pixels;
  spec.classes = objective.outputs(classes);
  return spec;
}

NetworkSpec network_spec(const Config& config, const Objective& objective, const ImageSet& id) {
  return network_spec(config, objective, id.channels(), id.height() * id.width(),
                      static_cast<int64_t>(id.class_names.size()));
}

NetworkSpec likely_spec(const Config& config, const Objective& objective) {
  const auto channels = static_cast<int64_t>(config.network.mean.size());
  return network_spec(config, objective, channels, config.data.size * config.data.size, 2);
}

std::unique_ptr<Network> training_network(const Config& config, const NetworkSpec& spec) {
  auto network = make_network(spec, static_cast<uint64_t>(config.seed));
  if (config.train.freeze == Freeze::kBackbone) network->freeze_backbone();
  return network;
}

std::string weights_file(const Config& config) {
  if (config.weights.empty()) return "";
  const std::filesystem::path given = config.weights;
  const auto path = given.is_absolute()
                        ? given
                        : std::filesystem::proximate(config.data.folder / given);  // short in messages
  const RunFolder run(path.string());
  if (run.finished()) return run.detector;
  if (run.is_run())
    throw Error("network.init", "is '" + config.weights + "', a run that has no detector yet",
                "finish the run, or name its " + run.checkpoint);
  if (!std::filesystem::is_regular_file(path))
    throw Error("network.init",
                "is '" + config.weights + "', which is neither he nor authors nor a file nor a run",
                "check the path, and data.folder, which relative paths start from");
  return path.string();
}

void warn_of_small_images(const Config& config, const Network& network) {
  constexpr int64_t kLeast = 128;  // a side that such networks shrink to 4 positions
  const int64_t size = config.data.size;
  if (size >= kLeast || !for_large_images(network)) return;
  spdlog::warn(
      "data.size is {0}: {1} is made for images of 224×224 pixels, not {0}×{0}. Set data.size to 224, or "
      "network.name to resnet18, which is made for small images",
      size, network.spec().name);
}

void prepare_network(Network& network, const TrainingData& data, uint64_t seed, at::Device device) {
  constexpr int64_t kMost = 10000;
  if (!network.prepares()) return;
  std::vector<Crop> id;
  // Few images give several crops each.
  for (int64_t epoch = 0; static_cast<int64_t>(id.size()) < kMost; ++epoch) {
    const std::vector<Crop> crops = id_crops(data, seed, epoch);
    id.insert(id.end(), crops.begin(), crops.end());
  }
  const std::vector<Crop> outliers = draw_pool(data.outliers, kMost, seed, 0);
  network.prepare(cut(data.id, id.data(), kMost, data.id_cut).to(device),
                  cut(data.outliers, outliers.data(), kMost, data.outlier_cut).to(device));
}

void calibrate_batch_norm(Network& network, const DeviceImages& images, const std::vector<Crop>& crops,
                          const Augmentation& augmentation, int64_t batch,
                          const std::function<void(int64_t)>& after_batch) {
  constexpr int64_t kLeast = 50;
  const auto size = static_cast<int64_t>(crops.size()), batches = (size + batch - 1) / batch;
  const at::NoGradGuard no_grad;
  network.train(true);
  for (int64_t i = 0; i < std::max(batches, kLeast); ++i) {
    stop_if_interrupted();
    const int64_t first = i % batches * batch, count = std::min(batch, size - first);
    network.features(images.cut(&crops[first], count, augmentation));
    after_batch(count);
  }
}

}  // namespace poem

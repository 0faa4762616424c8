#include "train/checkpoint.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/runtime.h"
#include "poem/error.h"
#include "poem/version.h"
#include "train/config_keys.h"
#include "world/world.h"

namespace poem {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "poem-checkpoint-1";

json surroundings(at::Device device) {
  const Runtime r = runtime();
  return {{"threads", r.threads},
          {"libtorch", r.libtorch},
          {"cpu_capability", r.cpu_capability},
          {"device", device.str()}};
}

void warn_of_differences(const json& then, const json& now) {
  for (const auto& [name, value] : now.items()) {
    if (then.at(name) == value) continue;
    spdlog::warn(
        "resuming with {} {}, the run was at {}: figures may differ, it will not be the same to the bit",
        name, value.dump(), then.at(name).dump());
  }
}

// "outliers 1000, now 900"
std::string differences(const json& then, const json& now) {
  json all = then;
  all.update(now);
  std::string text;
  for (const auto& [name, value] : all.items()) {
    const json before = then.value(name, json("none")), after = now.value(name, json("none"));
    if (before != after)
      text += fmt::format("{}{} {}, now {}", text.empty() ? "" : "; ", name, before.dump(), after.dump());
  }
  return text;
}

// The config as far as a checkpoint belongs to it: the changeable keys are as in any other.
std::string state_text(Config config) {
  Config any;
  const auto keys = poem::keys(config), defaults = poem::keys(any);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto& names = changeable_keys();
    if (std::find(names.begin(), names.end(), keys[i].name) != names.end())
      set_key(keys, keys[i].name + "=" + value_text(defaults[i]));
  }
  return to_yaml(config);
}

}  // namespace

json data_sizes(const TrainingData& data) {
  json sizes = {{"train", data.train_rows.size()},
                {"validation", data.validation_rows.size()},
                {"outliers", data.outliers.size()},
                {"world", kWorldVersion}};
  const std::vector<MixturePart>& parts = data.outliers.parts();
  if (parts.size() > 1) {
    for (const MixturePart& part : parts) sizes["sources"].push_back(part.images.size());
  }
  return sizes;
}

const std::vector<std::string>& changeable_keys() {
  static const std::vector<std::string> names = {"train.epochs", "train.evaluate_every", "threshold.tpr",
                                                 "data.folder"};
  return names;
}

std::string config_text(Config config) {
  config.data.folder.clear();
  return to_yaml(config);
}

void write_checkpoint(const std::string& path, const Trainer& trainer, const TrainingData& data,
                      at::Device device) {
  TensorFile file;
  trainer.store(file);
  file.metadata["format"] = kFormat;
  file.metadata["poem"] = version();
  file.metadata["surroundings"] = surroundings(device).dump();
  file.metadata["data"] = data_sizes(data).dump();
  file.metadata["config"] = config_text(trainer.config());
  write_safetensors(path, file);
}

void read_checkpoint(const std::string& path, Trainer& trainer, const TrainingData& data, at::Device device) {
  const TensorFile file = read_safetensors(path, "delete it, and the same command trains from the start");
  if (const auto& format = file.text("format"); format != kFormat) {
    throw Error(path, "is of format '" + format + "'", fmt::format("this poem reads {}", kFormat));
  }
  const json sizes = data_sizes(data),
             written = json::parse(file.text("data"), nullptr, /*allow_exceptions=*/false);
  if (!written.is_object()) throw Error(path, "is damaged: its data are not known", "train again");
  if (written != sizes)
    throw Error(path, "was written with other numbers of images: " + differences(written, sizes),
                "restore the data, or train again");
  // Keys that an older poem did not know yet have their default.
  if (state_text(config_from(file.text("config"), path)) != state_text(trainer.config())) {
    throw Error(path, "was written with another config.yaml, or by another version of poem",
                "restore what it was, or train again");
  }
  try {
    warn_of_differences(json::parse(file.text("surroundings")), surroundings(device));
    trainer.load(file);
  } catch (const json::exception& e) {
    throw Error(path, std::string("is damaged: ") + e.what(), "train again");
  }
}

}  // namespace poem

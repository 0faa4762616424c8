#include "detect/detector.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/safetensors.h"
#include "core/version.h"
#include "data/augment.h"
#include "detect/score.h"
#include "net/weights.h"

namespace poem {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "poem-detector-1";
constexpr int64_t kBlock = 500;  // images judged at a time

json to_json(const NetworkSpec& s) {
  return {{"name", s.name},     {"depth", s.depth},           {"growth", s.growth}, {"width", s.width},
          {"hidden", s.hidden}, {"channels", s.channels},     {"pixels", s.pixels}, {"classes", s.classes},
          {"head", s.head},     {"components", s.components}, {"init", s.init},     {"mean", s.mean},
          {"std", s.std}};
}

NetworkSpec network_from(const json& j) {
  NetworkSpec s;
  j.at("name").get_to(s.name);
  j.at("depth").get_to(s.depth);
  j.at("growth").get_to(s.growth);
  j.at("width").get_to(s.width);
  j.at("hidden").get_to(s.hidden);
  j.at("channels").get_to(s.channels);
  j.at("pixels").get_to(s.pixels);
  j.at("classes").get_to(s.classes);
  j.at("head").get_to(s.head);
  j.at("components").get_to(s.components);
  j.at("init").get_to(s.init);
  j.at("mean").get_to(s.mean);
  j.at("std").get_to(s.std);
  return s;
}

}  // namespace

at::Tensor Detector::logits(const ImageSet& images) const {
  const at::NoGradGuard no_grad;
  network->train(false);
  const at::Device device = network->parameters().front().second.device();
  const Augmentation whole = plain(size);
  std::vector<at::Tensor> blocks = {at::empty({0, network->spec().classes})};
  std::vector<Crop> crops;
  for (int64_t first = 0; first < images.size(); first += kBlock) {
    crops.clear();
    for (int64_t i = first; i < std::min(first + kBlock, images.size()); ++i) crops.push_back({i, 0});
    const at::Tensor pixels = cut(images, crops.data(), static_cast<int64_t>(crops.size()), whole).to(device);
    blocks.push_back(network->logits(network->features(pixels)).cpu());
  }
  return at::cat(blocks);
}

std::vector<Verdict> Detector::judge(const ImageSet& images) const {
  if (!threshold) {
    throw Error("detector", "has no threshold", "train with data.validation above 0");
  }
  const at::Tensor z = logits(images);
  const at::Tensor scores = score_logits(score, z).contiguous(), labels = z.argmax(1);
  std::vector<Verdict> verdicts(images.size());
  for (int64_t i = 0; i < images.size(); ++i) {
    const float s = scores.data_ptr<float>()[i];
    verdicts[i] = {labels.data_ptr<int64_t>()[i], s, s >= *threshold};
  }
  return verdicts;
}

void Detector::save(const std::string& path) const {
  TensorFile file;
  store_weights(*network, "", file);
  json about = {
      {"network", to_json(network->spec())}, {"score", score}, {"class_names", class_names}, {"size", size}};
  about["threshold"] = threshold ? json(*threshold) : json(nullptr);
  // Class names may be folder names in another encoding than UTF-8, which JSON does not allow.
  const std::string text = about.dump(-1, ' ', false, json::error_handler_t::replace);
  file.metadata = {{"format", kFormat}, {"poem", version()}, {"detector", text}};
  write_safetensors(path, file);
}

Detector Detector::load(const std::string& path) {
  const TensorFile file = read_safetensors(path);
  if (const auto& format = file.text("format"); format != kFormat) {
    throw Error(path, "is of format '" + format + "'", fmt::format("this poem reads {}", kFormat));
  }
  Detector detector;
  try {
    const json about = json::parse(file.text("detector"));
    detector.network = make_network(network_from(about.at("network")), 0);
    about.at("score").get_to(detector.score);
    about.at("class_names").get_to(detector.class_names);
    about.at("size").get_to(detector.size);
    if (!about.at("threshold").is_null()) detector.threshold = about.at("threshold").get<double>();
  } catch (const json::exception& e) {
    throw Error(path, std::string("its description is damaged: ") + e.what(), "write or copy the file again");
  }
  load_weights(*detector.network, "", file);
  return detector;
}

}  // namespace poem

#include "poem/detector.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/memory.h"
#include "core/safetensors.h"
#include "core/text.h"
#include "detect/image_blocks.h"
#include "net/weights.h"
#include "poem/error.h"
#include "poem/version.h"

namespace poem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "poem-detector-2";
constexpr const char* kScorePrefix = "score.";  // of the tensors that a fitted score needs

json to_json(const NetworkSpec& s) {
  return {{"name", s.name},     {"depth", s.depth},           {"growth", s.growth}, {"width", s.width},
          {"hidden", s.hidden}, {"channels", s.channels},     {"pixels", s.pixels}, {"classes", s.classes},
          {"head", s.head},     {"components", s.components}, {"init", s.init},     {"mean", s.mean},
          {"std", s.std}};
}

int64_t whole_number(const json& j, const char* key) {
  if (!j.at(key).is_number_integer()) throw Error(key, "is " + j.at(key).dump() + ", not a whole number");
  return j.at(key).get<int64_t>();
}

NetworkSpec network_from(const json& j) {
  NetworkSpec s;
  j.at("name").get_to(s.name);
  s.depth = whole_number(j, "depth");
  s.growth = whole_number(j, "growth");
  s.width = whole_number(j, "width");
  j.at("hidden").get_to(s.hidden);
  s.channels = whole_number(j, "channels");
  s.pixels = whole_number(j, "pixels");
  s.classes = whole_number(j, "classes");
  j.at("head").get_to(s.head);
  s.components = whole_number(j, "components");
  j.at("init").get_to(s.init);
  j.at("mean").get_to(s.mean);
  j.at("std").get_to(s.std);
  return s;
}

Calibration calibration_from(const json& j) {
  const Calibration calibration{j.at("tpr").get<double>(), whole_number(j, "images")};
  if (calibration.tpr > 0 && calibration.tpr <= 1 && calibration.images > 0) return calibration;
  throw Error("calibration", "is " + j.dump());
}

// What helps where the file is damaged: in the folder of its run, the run.
std::string remedy_for(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  if (!fs::exists(folder / "config.yaml")) return "copy it again";
  return "copy it again, or resume the run " + shell_quoted(folder.empty() ? "." : folder.string());
}

// A network may have more outputs than there are classes, never fewer.
void check_classes(const Detector& detector) {
  const auto names = static_cast<int64_t>(detector.class_names.size());
  const int64_t outputs = detector.network->spec().classes;
  if (names < 1 || (detector.network->classifies() && names > outputs))
    throw Error("class_names", fmt::format("has {} names for a network of {} outputs", names, outputs));
}

// All but what the score was fitted to.
Detector describe(const json& about, const TensorFile& file) {
  constexpr int64_t kLargest = 4096;  // what images can be resized to
  Detector detector;
  detector.score = make_score(about.at("score").get<std::string>());
  about.at("class_names").get_to(detector.class_names);
  detector.size = whole_number(about, "size");
  if (detector.size < 1 || detector.size > kLargest)
    throw Error("size", fmt::format("is {}, not 1 to {}", detector.size, kLargest));
  if (!about.at("threshold").is_null()) detector.threshold = about.at("threshold").get<double>();
  if (about.contains("calibration")) detector.calibration = calibration_from(about["calibration"]);
  detector.network = make_network(network_from(about.at("network")), Weights(file, ""));
  check_classes(detector);
  return detector;
}

// What was saved for the score must be able to take a batch such as the network gives: one is made up.
void check_score_fits(const Detector& detector, const std::string& path) {
  const at::NoGradGuard no_grad;
  Network& network = *detector.network;
  const int64_t outputs = network.spec().classes, size = detector.size,
                classes = network.classifies() ? static_cast<int64_t>(detector.class_names.size()) : 0;
  network.train(false);
  at::Tensor pixels;
  if (needs(detector.score->name(), kNetwork)) {
    check_memory(path, static_cast<uint64_t>(sizeof(float) * network.spec().channels * size * size),
                 remedy_for(path));
    pixels = at::zeros({1, network.spec().channels, size, size});
  }
  try {
    const Batch batch{at::arange(classes, at::kFloat).unsqueeze(0), at::zeros({1, outputs - classes}),
                      at::zeros({1, network.feature_count()}), pixels, &network};
    if ((*detector.score)(batch).numel() == 1) return;
  } catch (const std::exception&) {  // LibTorch's complaints about shapes and types
  }
  throw Error(path, "what it holds for the score '" + detector.score->name() + "' does not fit its network",
              remedy_for(path));
}

}  // namespace

void Detector::for_each_batch(const ImageSet& images, const std::function<void(const Batch&)>& use) const {
  const at::NoGradGuard no_grad;
  network->train(false);
  const int64_t classes = network->classifies() ? static_cast<int64_t>(class_names.size()) : 0;
  for_each_block(images, size, network->parameters().front().second.device(), [&](const at::Tensor& pixels) {
    const at::Tensor features = network->features(pixels), outputs = network->logits(features).cpu();
    use({outputs.narrow(1, 0, classes), outputs.narrow(1, classes, outputs.size(1) - classes),
         features.narrow(1, 0, network->feature_count()).cpu(), pixels, network.get()});
  });
}

at::Tensor Detector::logits(const ImageSet& images) const {
  const int64_t classes = network->classifies() ? static_cast<int64_t>(class_names.size()) : 0;
  std::vector<at::Tensor> blocks = {at::empty({0, classes})};
  for_each_batch(images, [&](const Batch& batch) { blocks.push_back(batch.logits); });
  return at::cat(blocks);
}

at::Tensor Detector::scores(const ImageSet& images) const {
  std::vector<at::Tensor> blocks = {at::empty({0})};
  for_each_batch(images, [&](const Batch& batch) { blocks.push_back((*score)(batch)); });
  return at::cat(blocks);
}

std::vector<Verdict> Detector::judge(const ImageSet& images) const {
  if (!threshold) {
    throw Error("detector", "has no threshold", "train with data.validation above 0");
  }
  std::vector<Verdict> verdicts;
  verdicts.reserve(images.size());
  for_each_batch(images, [&](const Batch& batch) {
    const int64_t count = batch.features.size(0);
    const at::Tensor labels =
        network->classifies() ? batch.logits.argmax(1) : at::full({count}, -1, at::kLong);
    const std::vector<float> scores = to_floats((*score)(batch));
    for (size_t i = 0; i < scores.size(); ++i)
      verdicts.push_back({labels.data_ptr<int64_t>()[i], scores[i], scores[i] >= *threshold});
  });
  return verdicts;
}

void Detector::save(const std::string& path) const {
  TensorFile file;
  store_weights(*network, "", file);
  score->store(file, kScorePrefix);
  json about = {{"network", to_json(network->spec())},
                {"score", score->name()},
                {"class_names", class_names},
                {"size", size}};
  about["threshold"] = threshold ? json(*threshold) : json(nullptr);
  if (calibration) about["calibration"] = {{"tpr", calibration->tpr}, {"images", calibration->images}};
  // Class names may be folder names in another encoding than UTF-8, which JSON does not allow.
  const std::string text = about.dump(-1, ' ', false, json::error_handler_t::replace);
  file.metadata = {{"format", kFormat}, {"poem", version()}, {"detector", text}};
  write_safetensors(path, file);
}

Detector Detector::load(const std::string& path) {
  const TensorFile file = read_safetensors(path, remedy_for(path));
  if (const auto& format = file.text("format"); format != kFormat) {
    throw Error(path, "is of format '" + format + "'", fmt::format("this poem reads {}", kFormat));
  }
  const std::string& text = file.text("detector");
  Detector detector;
  try {
    detector = describe(json::parse(text), file);
  } catch (const json::exception& e) {
    throw Error(path, std::string("its description is damaged: ") + e.what(), remedy_for(path));
  } catch (const Error& e) {
    if (e.where() == path) throw;  // a tensor that does not fit names the file already
    throw Error(path, std::string("its description is damaged: ") + e.what(), remedy_for(path));
  }
  detector.score->load(file, kScorePrefix);
  check_score_fits(detector, path);
  return detector;
}

}  // namespace poem

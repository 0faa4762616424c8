#include "poem/detector.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/json_text.h"
#include "core/memory.h"
#include "core/safetensors.h"
#include "core/text.h"
#include "detect/class_names.h"
#include "detect/image_blocks.h"
#include "detect/threshold.h"
#include "net/weights.h"
#include "poem/error.h"
#include "poem/fit.h"
#include "poem/version.h"

namespace poem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "poem-detector-2";
constexpr const char* kScorePrefix = "score.";  // of the tensors that a fitted score needs
constexpr const char* kHeldOutScores = "held_out.scores";

const std::vector<std::string> kHeads = {"linear", "projection", "density"}, kInits = {"he", "authors"};

json to_json(const NetworkSpec& s) {
  return {{"name", s.name},
          {"depth", s.depth},
          {"growth", s.growth},
          {"width", s.width},
          {"hidden", s.hidden},
          {"channels", s.channels},
          {"pixels", s.pixels},
          {"classes", s.classes},
          {"head", kHeads[static_cast<size_t>(s.head)]},
          {"components", s.components},
          {"init", kInits[static_cast<size_t>(s.init)]},
          {"mean", s.mean},
          {"std", s.std}};
}

// A value in an error message.
std::string shown(const json& value) {
  const std::string text = value.dump();
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

// The remedy if a newer poem may know what this one does not.
std::string update_remedy(const TensorFile& file) {
  const auto writer = file.metadata.find("poem");
  return writer == file.metadata.end()
             ? "update poem"
             : fmt::format("it was written by poem {}: update poem", writer->second);
}

bool is_newer(const std::string& format) {
  const std::string family = "poem-detector-", own = kFormat;
  const auto number = [&](const std::string& text) { return parse_number<int>(text.substr(family.size())); };
  return starts_with(format, family) && number(format) > number(own);
}

std::vector<std::string> keys_of(const json& j) {
  std::vector<std::string> keys;
  for (auto entry = j.begin(); j.is_object() && entry != j.end(); ++entry) keys.push_back(entry.key());
  return keys;
}

// An entry that a later poem added may change the verdicts, so none is passed over; nor is a tensor.
void check_entries(const json& j, const std::vector<std::string>& known, const TensorFile& file) {
  for (const std::string& key : keys_of(j)) {
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw Error(file.path,
                  fmt::format("its description has the entry '{}', which this poem does not know", key),
                  update_remedy(file));
  }
}

// `score` is that of the file, with its tensors.
void check_tensors(const Network& network, Score& score, const TensorFile& file) {
  TensorFile known;
  store_weights(network, "", known);
  score.store(known, kScorePrefix);
  for (const auto& [name, tensor] : file.tensors) {
    if (name != kHeldOutScores && known.tensors.count(name) == 0)
      throw Error(file.path, fmt::format("has the tensor '{}', which this poem does not know", name),
                  update_remedy(file));
  }
}

const json& entry(const json& j, const char* key) {
  if (!j.contains(key)) throw Error(key, "is missing");
  return j[key];
}

template <class T>
T value_of(const json& j, const char* key) {
  try {
    return entry(j, key).get<T>();
  } catch (const json::exception&) {
    throw Error(key, "is " + shown(j[key]) + ", which has the wrong type");
  }
}

// The value of an enum by its text.
template <class Enum>
Enum choice_of(const json& j, const char* key, const std::vector<std::string>& texts) {
  const auto text = std::find(texts.begin(), texts.end(), value_of<std::string>(j, key));
  if (text == texts.end()) throw Error(key, "is " + shown(j[key]), "known: " + listed(texts));
  return static_cast<Enum>(text - texts.begin());
}

int64_t whole_number(const json& j, const char* key) {
  if (!entry(j, key).is_number_integer()) throw Error(key, "is " + shown(j[key]) + ", not a whole number");
  return j[key].get<int64_t>();
}

NetworkSpec network_from(const json& j) {
  NetworkSpec s;
  s.name = value_of<decltype(s.name)>(j, "name");
  s.depth = whole_number(j, "depth");
  s.growth = whole_number(j, "growth");
  s.width = whole_number(j, "width");
  s.hidden = value_of<decltype(s.hidden)>(j, "hidden");
  s.channels = whole_number(j, "channels");
  s.pixels = whole_number(j, "pixels");
  s.classes = whole_number(j, "classes");
  s.head = choice_of<HeadKind>(j, "head", kHeads);
  s.components = whole_number(j, "components");
  s.init = choice_of<Initialisation>(j, "init", kInits);
  s.mean = value_of<decltype(s.mean)>(j, "mean");
  s.std = value_of<decltype(s.std)>(j, "std");
  return s;
}

Calibration calibration_from(const json& j) {
  if (j.is_object() && j.contains("tpr") && j["tpr"].is_number() && j.contains("images") &&
      j["images"].is_number_integer()) {
    Calibration calibration{j["tpr"].get<double>(), j["images"].get<int64_t>()};
    if (j.contains("source")) calibration.source = value_of<std::string>(j, "source");
    if (is_possible(calibration)) return calibration;
  }
  throw Error("calibration", "is " + shown(j) + ", not a tpr up to 1 and a number of images");
}

UnsureRange unsure_from(const json& j, const std::optional<double>& threshold) {
  if (j.is_object() && j.contains("tpr") && j["tpr"].is_number() && j.contains("threshold") &&
      j["threshold"].is_number()) {
    const UnsureRange unsure{j["threshold"].get<double>(), j["tpr"].get<double>()};
    if (threshold && unsure.threshold <= *threshold && unsure.tpr > 0 && unsure.tpr <= 1) return unsure;
  }
  throw Error("unsure", "is " + shown(j) + ", not a tpr up to 1 and a threshold below the detector's");
}

// The remedy for a damaged file. In a run folder the run can write it again.
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
  check_class_names("class_names", detector.class_names);
}

// The detector without the fitted state of its score.
Detector describe(const json& about, const TensorFile& file) {
  constexpr int64_t kLargest = 4096;  // what images can be resized to
  Detector detector;
  check_entries(
      about, {"network", "score", "class_names", "size", "threshold", "calibration", "unsure", "temperature"},
      file);
  detector.score = make_score(value_of<std::string>(about, "score"));
  detector.class_names = value_of<std::vector<std::string>>(about, "class_names");
  detector.size = whole_number(about, "size");
  if (detector.size < 1 || detector.size > kLargest)
    throw Error("size", fmt::format("is {}, not 1 to {}", detector.size, kLargest));
  if (!entry(about, "threshold").is_null()) detector.threshold = value_of<double>(about, "threshold");
  if (about.contains("calibration")) {
    check_entries(about["calibration"], {"tpr", "images", "source"}, file);
    detector.calibration = calibration_from(about["calibration"]);
  }
  if (about.contains("unsure")) {
    check_entries(about["unsure"], {"threshold", "tpr"}, file);
    detector.unsure = unsure_from(about["unsure"], detector.threshold);
  }
  if (about.contains("temperature")) detector.temperature = value_of<double>(about, "temperature");
  if (!(detector.temperature > 0))
    throw Error("temperature", "is " + shown(about["temperature"]) + ", not above 0");
  check_entries(entry(about, "network"), keys_of(to_json(NetworkSpec{})), file);
  detector.network = make_network(network_from(entry(about, "network")), Weights(file, ""));
  check_classes(detector);
  // An Error for a score of outputs that the network does not have.
  choose_scores({detector.score->name()}, available(detector, std::nullopt) | kImages);
  if (const int64_t pixels = detector.network->spec().pixels;
      pixels > 1 && pixels != detector.size * detector.size)
    throw Error("size", fmt::format("is {}, but the network takes {} pixels", detector.size, pixels));
  return detector;
}

std::vector<float> held_out_scores(const TensorFile& file) {
  if (file.tensors.count(kHeldOutScores) == 0) return {};
  const at::Tensor& stored = file.tensor(kHeldOutScores);
  if (stored.dim() == 1 && stored.scalar_type() == at::kFloat && !stored.isnan().any().item<bool>()) {
    const std::vector<float> scores = to_floats(stored);
    if (!scores.empty() && std::is_sorted(scores.begin(), scores.end())) return scores;
  }
  throw Error(file.path, fmt::format("tensor '{}' is not a list of ascending scores", kHeldOutScores),
              remedy_for(file.path));
}

// Tries the saved score on a made-up batch of the shapes that the network gives.
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
  throw Error(path, "its tensors for the score '" + detector.score->name() + "' do not fit its network",
              remedy_for(path));
}

// Of a score that is not a number, the smallest possible.
double p_value(const std::vector<float>& held_out, float score) {
  if (held_out.empty()) return std::nan("");
  const auto below =
      std::isnan(score) ? 0 : std::upper_bound(held_out.begin(), held_out.end(), score) - held_out.begin();
  return static_cast<double>(1 + below) / static_cast<double>(1 + held_out.size());
}

void add_verdicts(const Detector& detector, const Batch& batch, std::vector<Verdict>& verdicts) {
  const at::NoGradGuard no_grad;
  const std::vector<float> scores = to_floats((*detector.score)(batch));
  at::Tensor labels, probabilities;
  if (detector.network->classifies())
    std::tie(probabilities, labels) = (batch.logits.to(at::kDouble) / detector.temperature).softmax(1).max(1);
  for (size_t i = 0; i < scores.size(); ++i) {
    Verdict verdict{-1, scores[i], scores[i] >= *detector.threshold};
    verdict.unsure = !verdict.known && detector.unsure && scores[i] >= detector.unsure->threshold;
    verdict.p_value = p_value(detector.held_out, scores[i]);
    if (labels.defined()) {
      verdict.label = labels.data_ptr<int64_t>()[i];
      verdict.probability = probabilities.data_ptr<double>()[i];
    }
    verdicts.push_back(verdict);
  }
}

}  // namespace

void check_threshold(const Detector& detector, const std::string& where) {
  if (!detector.threshold)
    throw Error(where, "has no threshold, so it cannot call an image unknown",
                "set one with poem calibrate, or train with data.validation above 0");
}

Batch Detector::forward(const at::Tensor& pixels) const {
  network->train(false);
  const int64_t classes = network->classifies() ? static_cast<int64_t>(class_names.size()) : 0;
  const at::Tensor placed = pixels.to(network->parameters().front().second.device());
  const at::Tensor features = network->features(placed), outputs = network->logits(features).cpu();
  return {outputs.narrow(1, 0, classes), outputs.narrow(1, classes, outputs.size(1) - classes),
          features.narrow(1, 0, network->feature_count()).cpu(), placed, network.get()};
}

void Detector::for_each_batch(const ImageSet& images, const std::function<void(const Batch&)>& use) const {
  const at::NoGradGuard no_grad;
  for_each_block(images, size, network->parameters().front().second.device(),
                 [&](const at::Tensor& pixels) { use(forward(pixels)); });
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
  check_threshold(*this);
  std::vector<Verdict> verdicts;
  verdicts.reserve(images.size());
  for_each_batch(images, [&](const Batch& batch) { add_verdicts(*this, batch, verdicts); });
  return verdicts;
}

std::vector<Verdict> Detector::judge(const at::Tensor& pixels) const {
  const int64_t channels = network->spec().channels;
  if (pixels.dim() != 4 || pixels.size(1) != channels || pixels.size(2) != size || pixels.size(3) != size)
    throw Error("images", c10::str("have shape ", pixels.sizes()),
                fmt::format("the detector takes n×{}×{}×{}", channels, size, size));
  check_threshold(*this);
  const at::NoGradGuard no_grad;
  std::vector<Verdict> verdicts;
  for (const at::Tensor& block : pixels.split(kForwardImages)) add_verdicts(*this, forward(block), verdicts);
  return verdicts;
}

std::string Detector::word(const Verdict& verdict) const {
  if (!verdict.known) return verdict.unsure ? "unsure" : "unknown";
  return verdict.label < 0 ? "known" : class_names[verdict.label];
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
  if (calibration) {
    about["calibration"] = {{"tpr", calibration->tpr}, {"images", calibration->images}};
    if (!calibration->source.empty()) about["calibration"]["source"] = calibration->source;
  }
  if (unsure) about["unsure"] = {{"threshold", unsure->threshold}, {"tpr", unsure->tpr}};
  if (temperature != 1) about["temperature"] = temperature;
  if (!held_out.empty()) file.tensors[kHeldOutScores] = at::tensor(held_out);
  // A program may give class names in another encoding than UTF-8, which JSON does not allow.
  const std::string text = json_text(about);
  file.metadata = {{"format", kFormat}, {"poem", version()}, {"detector", text}};
  write_safetensors(path, file);
}

Detector Detector::load(const std::string& path) {
  const TensorFile file = read_safetensors(path, remedy_for(path));
  if (const auto& format = file.text("format"); format != kFormat) {
    throw Error(path, fmt::format("has the format '{}', and this poem reads {}", format, kFormat),
                is_newer(format) ? update_remedy(file) : "train it again, or use the poem that wrote it");
  }
  const std::string& text = file.text("detector");
  Detector detector;
  try {
    detector = describe(json::parse(text), file);
  } catch (const json::exception&) {
    throw Error(path, "its description is damaged: it is not JSON", remedy_for(path));
  } catch (const Error& e) {
    if (e.where() == path) throw;  // a tensor that does not fit names the file already
    throw Error(path, std::string("its description is damaged: ") + e.what(), remedy_for(path));
  }
  detector.held_out = held_out_scores(file);
  detector.score->load(file, kScorePrefix);
  check_score_fits(detector, path);
  check_tensors(*detector.network, *detector.score, file);
  return detector;
}

}  // namespace poem

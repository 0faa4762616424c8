// Weights from other programs. Their names are translated to poem's, so that one comparison serves all.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/StringUtil.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/file.h"
#include "core/npy.h"
#include "core/state_dict.h"
#include "net/weights.h"
#include "poem/error.h"
#include "poem/network.h"

namespace poem {
namespace {

using nlohmann::json;

TensorFile read_weights(const std::string& path) {
  const InputFile file(path);
  uint8_t start[9] = {};
  file.read_at(0, start, std::min<uint64_t>(sizeof start, file.size()));
  const bool safetensors = start[8] == '{';  // after the header's length, which may begin with any bytes
  if (!safetensors && start[0] == 'P' && start[1] == 'K') return read_state_dict(path);
  if (!safetensors && start[0] == 0x80)
    throw Error(path, "is a pickle of PyTorch before 1.6, which poem does not read",
                "save it again with a later PyTorch: torch.save(torch.load(FILE), NEW_FILE)");
  return read_safetensors(path, "name a .safetensors file, or a state dict that PyTorch 1.6 or later saved");
}

// "module.layer1.0.bn2.weight" → "block1.layer1.norm2.weight". Names that are poem's already stay.
std::string translated(const std::string& name) {
  static const std::pair<std::regex, const char*> kRules[] = {
      {std::regex("^(module\\.|_orig_mod\\.|network\\.|model\\.|backbone\\.)+"),
       ""},  // what frameworks put before names
      {std::regex("^layer(\\d+)\\."), "block$1.layer."},
      {std::regex("^trans(\\d+)\\.bn1\\."), "transition$1.norm."},
      {std::regex("^trans(\\d+)\\.conv1\\."), "transition$1.conv."},
      {std::regex("\\.bn(\\d)\\."), ".norm$1."},
      {std::regex("\\.(downsample|shortcut)\\.0\\.|\\.convShortcut\\."), ".shortcut."},
      {std::regex("\\.(downsample|shortcut)\\.1\\."), ".shortcut_norm."},
      {std::regex("^conv1\\."), "stem."},
      {std::regex("^bn1\\."), "norm."},
      {std::regex("^fc\\."), "linear."},
  };
  constexpr size_t kLongest = 200;  // std::regex recurses, and a damaged file may have names of any length
  if (name.size() > kLongest) return name;
  std::string result = name;
  for (const auto& [pattern, replacement] : kRules) result = std::regex_replace(result, pattern, replacement);
  static const std::regex kLayer("(block\\d+\\.layer)\\.(\\d{1,4})(\\..*)");  // counted from 0
  std::smatch part;
  if (!std::regex_match(result, part, kLayer)) return result;
  return fmt::format("{}{}{}", part[1].str(), std::stoi(part[2]) + 1, part[3].str());
}

bool starts_with(const std::string& text, const char* start) { return text.rfind(start, 0) == 0; }

bool ends_with(const std::string& text, std::string_view end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

bool in_backbone(const std::string& name) {
  return starts_with(name, "stem.") || starts_with(name, "norm.") || starts_with(name, "block") ||
         starts_with(name, "transition") || starts_with(name, "hidden");
}

// "a, b, c and 12 more".
std::string first_of(const std::vector<std::string>& texts, const char* separator = ", ") {
  constexpr size_t kMost = 3;
  const size_t shown = std::min(kMost, texts.size());
  const std::string text = fmt::format("{}", fmt::join(texts.begin(), texts.begin() + shown, separator));
  return shown == texts.size() ? text : fmt::format("{} and {} more", text, texts.size() - shown);
}

// The comparison of a file with a network. Nothing is copied before all of it fits.
class Import {
 public:
  Import(const Network& network, const TensorFile& file) : network_(network), file_(file) {
    for (const auto& [name, tensor] : network.parameters()) targets_.emplace(name, tensor);
    for (const auto& [name, tensor] : network.buffers()) {
      if (!starts_with(name, "density.")) targets_.emplace(name, tensor);  // learnt from images
    }
    find_sources();
    check_head();
    check_backbone();
  }

  Imported copy() {
    const at::NoGradGuard no_grad;
    for (const auto& [name, source] : sources_) targets_.at(name).copy_(value(source));
    std::string report =
        fmt::format("{} of {} tensors from {}", sources_.size(), targets_.size(), file_.path);
    if (!head_.empty()) report += "; " + head_;
    if (!unused_.empty()) report += "; not used: " + first_of(unused_);
    return {report, warning()};
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& remedy) const {
    throw Error(file_.path, what, remedy);
  }

  // Which tensor of the file is which of the network.
  void find_sources() {
    for (const auto& [source, tensor] : file_.tensors) {
      const std::string name = translated(source);
      if (name.find("num_batches_tracked") != std::string::npos) continue;  // BatchNorm does not need it
      if (targets_.count(name) > 0 && sources_.emplace(name, source).second) continue;
      if (in_backbone(name)) {
        problems_.push_back(source + " has no place in the network");
      } else {
        unused_.push_back(source);
      }
    }
    for (const auto& [name, source] : sources_) {
      if (!in_head(name)) return;
    }
    fail(fmt::format("has no tensor of {}: {}", network_.spec().name, origin()),
         "set network.name to the network that the weights are of");
  }

  // The last layer of a file is used as a whole or not at all.
  void check_head() {
    std::vector<std::string> names;
    bool fits = true;
    for (const auto& [name, target] : targets_) {
      if (!in_head(name)) continue;
      const auto source = sources_.find(name);
      fits &= source != sources_.end() && shape(source->second) == target.sizes();
      if (source != sources_.end()) names.push_back(source->second);
    }
    if (fits) return;
    const auto weight = sources_.find("linear.weight");
    if (weight == sources_.end()) {
      head_ = "the last layer is new: the file has none";
    } else if (shape(weight->second).size() == 2 && shape(weight->second)[1] == network_.feature_count()) {
      head_ = fmt::format("not used: {} ({} outputs there, {} here)", fmt::join(names, ", "),
                          shape(weight->second)[0], targets_.at("linear.weight").size(0));
    } else {
      return;  // check_backbone() says why
    }
    for (auto source = sources_.begin(); source != sources_.end();)
      source = in_head(source->first) ? sources_.erase(source) : std::next(source);
  }

  void check_backbone() {
    for (const auto& [name, target] : targets_) {
      const auto source = sources_.find(name);
      if (source == sources_.end()) {
        if (!in_head(name)) problems_.push_back(name + " is missing");
      } else if (shape(source->second) != target.sizes()) {
        problems_.push_back(
            c10::str(source->second, " has shape ", shape(source->second), ", expected ", target.sizes()));
      }
    }
    if (!problems_.empty())
      fail(fmt::format("does not fit {}: {}; {}", network_.spec().name, first_of(problems_, "; "), origin()),
           "set network.name, depth, growth and width to those of the weights");
    for (const auto& [name, source] : sources_) {
      if (!at::isFloatingType(file_.tensor(source).scalar_type()))
        fail(fmt::format("tensor '{}' has elements of type {}", source, numpy_type(file_.tensor(source))),
             "save it as float32");
      if (ends_with(source, "running_var") && (value(source) < 0).any().item<bool>())
        fail(fmt::format("tensor '{}' contains a negative variance", source), "save the weights again");
      if (!at::isfinite(value(source)).all().item<bool>())
        fail(fmt::format("tensor '{}' contains a value that is not finite", source),
             "save the weights of an epoch before the training diverged");
    }
  }

  at::IntArrayRef shape(const std::string& source) const { return file_.tensor(source).sizes(); }
  at::Tensor value(const std::string& source) const { return file_.tensor(source).to(at::kFloat); }

  // Whose names these are.
  std::string origin() const {
    const auto has = [&](const char* part) {
      return std::any_of(file_.tensors.begin(), file_.tensors.end(),
                         [&](const auto& entry) { return entry.first.find(part) != std::string::npos; });
    };
    if (file_.tensors.empty()) return "it has no tensors";
    if (has("layer1.0.conv3."))
      return "its names are those of torchvision's ResNet-50 (network.name: resnet50)";
    if (has("layer1.0."))
      return "its names are those of torchvision's ResNet-18 (network.name: resnet18_224)";
    if (has("block1.layer.0."))
      return fmt::format("its names are those of the authors' {}",
                         has("trans1.") ? "DenseNet" : "WideResNet");
    if (has("block1.layer1.") || has("hidden1.")) return "its names are poem's own";
    return fmt::format("poem does not know its names, such as '{}'",
                       file_.tensors.begin()->first.substr(0, 60));
  }

  // Whether the weights were trained with other pixels: a detector says which, and torchvision's expect
  // ImageNet's. poem's default is CIFAR's.
  std::string warning() const {
    const NetworkSpec& now = network_.spec();
    if (const auto found = file_.metadata.find("detector"); found != file_.metadata.end()) {
      const json about = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
      const auto stored = [&](const char* key, const std::vector<double>& otherwise) {
        const json::json_pointer pointer(key);
        return about.contains(pointer) ? about.at(pointer) : json(otherwise);
      };
      const json mean = stored("/network/mean", now.mean), deviation = stored("/network/std", now.std);
      if (mean == json(now.mean) && deviation == json(now.std)) return "";
      return fmt::format("its network.mean is {} and its network.std {}; those of the config differ",
                         mean.dump(), deviation.dump());
    }
    const auto stem = targets_.find("stem.weight");
    const bool for_imagenet = stem != targets_.end() && stem->second.size(2) == 7;
    const NetworkSpec standard;
    if (!for_imagenet || now.mean != standard.mean || now.std != standard.std) return "";
    return "network.mean and network.std are those of CIFAR; weights from torchvision expect mean "
           "[123.675, 116.28, 103.53] and std [58.395, 57.12, 57.375]";
  }

  const Network& network_;
  const TensorFile& file_;
  std::map<std::string, at::Tensor> targets_;   // by name
  std::map<std::string, std::string> sources_;  // name → name in the file
  std::vector<std::string> problems_, unused_;
  std::string head_;  // what became of the last layer, if it is not the file's
};

}  // namespace

Imported import_weights(Network& network, const std::string& path) {
  const TensorFile file = read_weights(path);
  return Import(network, file).copy();
}

}  // namespace poem

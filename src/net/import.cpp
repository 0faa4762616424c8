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
#include "core/text.h"
#include "net/weights.h"
#include "poem/error.h"
#include "poem/network.h"

namespace poem {
namespace {

using nlohmann::json;

constexpr const char* kWeight = "linear.weight";  // of the last layer
constexpr size_t kLongestName = 200;  // std::regex recurses, and a damaged file may have names of any length

TensorFile read_weights(const std::string& path) {
  const InputFile file(path);
  uint8_t start[9] = {};
  file.read_at(0, start, std::min<uint64_t>(sizeof start, file.size()));
  const bool safetensors = start[8] == '{';  // after the header's length, which may begin with any bytes
  if (!safetensors && start[0] == 'P' && start[1] == 'K') return read_state_dict(path);
  if (!safetensors && start[0] == 0x80)
    throw Error(
        path, "is a pickle that poem does not read",
        "if it is a state dict of PyTorch before 1.6 and you trust it, save it again with PyTorch 1.13 "
        "or later: torch.save(torch.load(FILE, weights_only=True), NEW_FILE)");
  return read_safetensors(path, "name a .safetensors file, or a state dict that PyTorch 1.6 or later saved");
}

// Without what frameworks put before names.
std::string bare(const std::string& name) {
  static const std::regex kPrefix("^(module\\.|_orig_mod\\.|network\\.|model\\.|backbone\\.)+");
  return name.size() > kLongestName ? name : std::regex_replace(name, kPrefix, "");
}

// "module.layer1.0.bn2.weight" → "block1.layer1.norm2.weight". Names that are poem's already stay.
std::string translated(const std::string& name) {
  static const std::pair<std::regex, const char*> kRules[] = {
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
  if (name.size() > kLongestName) return name;
  std::string result = bare(name);
  for (const auto& [pattern, replacement] : kRules) result = std::regex_replace(result, pattern, replacement);
  static const std::regex kLayer("(block\\d+\\.layer)\\.(\\d{1,4})(\\..*)");  // counted from 0
  std::smatch part;
  if (!std::regex_match(result, part, kLayer)) return result;
  return fmt::format("{}{}{}", part[1].str(), std::stoi(part[2]) + 1, part[3].str());
}

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
  Import(const Network& network, const TensorFile& file, const std::vector<std::string>& class_names)
      : network_(network), file_(file), class_names_(class_names) {
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
    if (!prefix_.empty()) report += fmt::format(", without the prefix '{}' of their names", prefix_);
    if (!head_.empty()) report += "; " + head_;
    if (!unused_.empty()) report += "; not used: " + first_of(unused_);
    return {report, warning()};
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& remedy) const {
    throw Error(file_.path, what, remedy);
  }

  // Which tensor of the file is which of the network. If none fits by its name, the names may share a prefix
  // that poem does not know.
  void find_sources() {
    match_names();
    if (has_backbone()) return;
    prefix_ = shared_prefix();
    match_names();
    if (has_backbone()) return;
    fail(fmt::format("has no tensor of {}: {}", network_.spec().name, origin()),
         "set network.name to the network that the weights are of");
  }

  bool has_backbone() const {
    return std::any_of(sources_.begin(), sources_.end(),
                       [](const auto& found) { return !in_head(found.first); });
  }

  // "encoder." of "encoder.conv1.weight", "encoder.bn1.bias", …
  std::string shared_prefix() const {
    if (file_.tensors.empty()) return "";
    const std::string &first = file_.tensors.begin()->first, &last = file_.tensors.rbegin()->first;  // sorted
    const auto differs = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
    const std::string same(first.begin(), differs);
    return same.substr(0, same.rfind('.') + 1);  // npos + 1 is 0
  }

  void match_names() {
    sources_.clear();
    problems_.clear();
    unused_.clear();
    for (const auto& [source, tensor] : file_.tensors) {
      const std::string name = translated(source.substr(prefix_.size()));
      if (name.find("num_batches_tracked") != std::string::npos) continue;  // BatchNorm does not need it
      if (targets_.count(name) > 0 && sources_.emplace(name, source).second) continue;
      if (in_backbone(name)) {
        problems_.push_back(source + " has no place in the network");
      } else {
        unused_.push_back(source);
      }
    }
  }

  // The last layer of a file is used as a whole or not at all.
  void check_head() {
    const std::string reason = why_new_head();
    if (reason.empty()) return;
    head_ = "the last layer starts anew: " + reason;
    for (auto source = sources_.begin(); source != sources_.end();) {
      if (in_head(source->first)) unused_.push_back(source->second);
      source = in_head(source->first) ? sources_.erase(source) : std::next(source);
    }
  }

  // Empty if the network can have the file's last layer, or if check_backbone() refuses it.
  std::string why_new_head() const {
    const auto weight = sources_.find(kWeight);
    if (weight == sources_.end()) return "the file has none";
    if (!has_our_features(weight->second)) return "";
    const int64_t there = shape(weight->second)[0], here = targets_.at(kWeight).size(0);
    if (there != here) return fmt::format("the file's has {} outputs, the network has {}", there, here);
    for (const auto& [name, target] : targets_) {
      if (in_head(name) && sources_.count(name) == 0)
        return fmt::format("the file has {} but no {}", weight->second, name_there(name, weight->second));
    }
    return network_.classifies() ? first_other_class() : "";
  }

  bool has_our_features(const std::string& weight) const {
    return shape(weight).size() == 2 && shape(weight)[1] == network_.feature_count();
  }

  // "linear.bias" → "fc.bias", as the file calls the layer of `weight`.
  static std::string name_there(const std::string& name, const std::string& weight) {
    const std::string own = kWeight, layer = own.substr(0, own.find('.'));
    return replaced(name, layer, weight.substr(0, weight.rfind('.')));
  }

  // A detector says which classes its outputs are of.
  std::string first_other_class() const {
    const json names = about().value("class_names", json());
    if (class_names_.empty() || !names.is_array()) return "";
    const auto shown = [](const json& name) {
      return name.is_string() ? "'" + name.get<std::string>() + "'" : name.dump();
    };
    for (size_t i = 0; i < std::min(names.size(), class_names_.size()); ++i) {
      if (names[i] != json(class_names_[i]))
        return fmt::format("its class {} is {}, yours is '{}'", i + 1, shown(names[i]), class_names_[i]);
    }
    if (names.size() == class_names_.size()) return "";
    return fmt::format("the file has {} classes, your images have {}", names.size(), class_names_.size());
  }

  void check_backbone() {
    for (const auto& [name, target] : targets_) {
      const auto source = sources_.find(name);
      if (source == sources_.end()) {
        if (!in_head(name)) problems_.push_back(name + " is missing");
      } else if (name == kWeight && !has_our_features(source->second)) {
        problems_.push_back(c10::str(source->second, " has shape ", shape(source->second), ", expected ",
                                     network_.feature_count(), " columns"));
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
      return std::any_of(file_.tensors.begin(), file_.tensors.end(), [&](const auto& entry) {
        return starts_with(bare(entry.first), part) ||
               starts_with(bare(entry.first.substr(prefix_.size())), part);
      });
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

  // What a detector says of itself; otherwise empty.
  json about() const {
    const auto found = file_.metadata.find("detector");
    if (found == file_.metadata.end()) return json::object();
    const json about = json::parse(found->second, nullptr, /*allow_exceptions=*/false);
    return about.is_object() ? about : json::object();
  }

  // Whether the weights were trained with other pixels: a detector says which, and torchvision's expect
  // ImageNet's. poem's default is CIFAR's.
  std::string warning() const {
    const NetworkSpec& now = network_.spec();
    if (file_.metadata.count("detector") > 0) {
      const json stored = about().value("network", json());
      const auto value = [&](const char* key, const std::vector<double>& otherwise) {
        return stored.is_object() && stored.contains(key) ? stored[key] : json(otherwise);
      };
      const json mean = value("mean", now.mean), deviation = value("std", now.std);
      if (mean == json(now.mean) && deviation == json(now.std)) return "";
      return fmt::format("its network.mean is {} and its network.std {}; those of the config differ",
                         mean.dump(), deviation.dump());
    }
    const NetworkSpec standard;
    if (!for_large_images(network_) || now.mean != standard.mean || now.std != standard.std) return "";
    return "network.mean and network.std are those of CIFAR; weights from torchvision expect mean "
           "[123.675, 116.28, 103.53] and std [58.395, 57.12, 57.375]";
  }

  const Network& network_;
  const TensorFile& file_;
  const std::vector<std::string>& class_names_;
  std::map<std::string, at::Tensor> targets_;   // by name
  std::map<std::string, std::string> sources_;  // name → name in the file
  std::vector<std::string> problems_, unused_;
  std::string prefix_;  // of all names in the file
  std::string head_;    // why the last layer is not the file's; empty if it is
};

}  // namespace

Imported import_weights(Network& network, const std::string& path,
                        const std::vector<std::string>& class_names) {
  const TensorFile file = read_weights(path);
  return Import(network, file, class_names).copy();
}

}  // namespace poem

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>

#include "core/safetensors.h"
#include "core/text.h"
#include "expect_error.h"
#include "net/weights.h"
#include "poem/network.h"
#include "temporary_folder.h"

namespace poem {
namespace {

NetworkSpec wideresnet(int64_t classes = 4, int64_t depth = 10) {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = depth;
  spec.classes = classes;
  return spec;
}

using Tensors = std::map<std::string, at::Tensor>;

Tensors tensors_of(const Network& network) {
  TensorFile file;
  store_weights(network, "", file);
  return file.tensors;
}

// A network whose tensors are all different, statistics included.
std::unique_ptr<Network> trained(const NetworkSpec& spec) {
  const at::NoGradGuard no_grad;
  auto network = make_network(spec, 1);
  for (const auto& [name, buffer] : network->buffers()) at::Tensor(buffer).uniform_(0.5, 2);
  for (const auto& [name, parameter] : network->parameters()) at::Tensor(parameter).uniform_(-1, 1);
  return network;
}

// The names of poem's WideResNet as its authors' code has them.
std::string authors_name(std::string name) {
  for (int block = 1; block <= 3; ++block)
    name = replaced(name, "block" + std::to_string(block) + ".layer1.",
                    "block" + std::to_string(block) + ".layer.0.");
  name = replaced(name, ".norm", ".bn");
  name = replaced(name, ".shortcut.", ".convShortcut.");
  if (name.rfind("stem.", 0) == 0) name = "conv1." + name.substr(5);
  if (name.rfind("norm.", 0) == 0) name = "bn1." + name.substr(5);
  return name.rfind("linear.", 0) == 0 ? "fc." + name.substr(7) : name;
}

Tensors renamed(const Tensors& tensors, const std::function<std::string(const std::string&)>& to) {
  Tensors result;
  for (const auto& [name, tensor] : tensors) result[to(name)] = tensor;
  return result;
}

class Import : public testing::Test {
 protected:
  std::string write(const Tensors& tensors) {
    TensorFile file;
    file.tensors = tensors;
    write_safetensors(folder_ / "w.safetensors", file);
    return folder_ / "w.safetensors";
  }
  void expect_bad(const NetworkSpec& spec, const Tensors& tensors, const std::vector<std::string>& words) {
    const auto network = make_network(spec, 2), other = make_network(spec, 2);
    std::vector<std::string> all = words;
    all.emplace_back("w.safetensors");
    expect_error([&] { import_weights(*network, write(tensors)); }, all);
    const Tensors after = tensors_of(*network);
    for (const auto& [name, tensor] : tensors_of(*other)) EXPECT_TRUE(after.at(name).equal(tensor)) << name;
  }

  TemporaryFolder folder_;
};

TEST_F(Import, TakesEveryTensorUnderAnyOfItsNames) {
  const NetworkSpec spec = wideresnet();
  const Tensors source = tensors_of(*trained(spec));
  const std::function<std::string(const std::string&)> namings[] = {
      [](const std::string& name) { return name; }, authors_name,
      [](const std::string& name) { return "module." + authors_name(name); },
      [](const std::string& name) { return "network." + name; }};
  for (const auto& naming : namings) {
    Tensors stored = renamed(source, naming);
    stored["block1.layer.0.bn1.num_batches_tracked"] = at::zeros({}, at::kLong);
    const auto network = make_network(spec, 2);
    const Imported imported = import_weights(*network, write(stored));
    EXPECT_EQ(imported.report, std::to_string(source.size()) + " of " + std::to_string(source.size()) +
                                   " tensors from " + (folder_ / "w.safetensors"));
    EXPECT_EQ(imported.warning, "");
    const Tensors after = tensors_of(*network);
    for (const auto& [name, tensor] : source) EXPECT_TRUE(after.at(name).equal(tensor)) << name;
    for (const auto& [name, parameter] : network->parameters()) EXPECT_TRUE(parameter.requires_grad());
  }
}

TEST_F(Import, ConvertsOtherPrecisions) {
  const Tensors source = tensors_of(*trained(wideresnet()));
  for (const auto type : {at::kHalf, at::kBFloat16, at::kDouble}) {
    Tensors stored;
    for (const auto& [name, tensor] : source) stored[name] = tensor.detach().to(type);
    const auto network = make_network(wideresnet(), 2);
    import_weights(*network, write(stored));
    const Tensors after = tensors_of(*network);
    for (const auto& [name, tensor] : stored)
      EXPECT_TRUE(after.at(name).equal(tensor.to(at::kFloat))) << name;
  }
}

TEST_F(Import, LeavesALastLayerOfOtherClassesFresh) {
  const Tensors source = renamed(tensors_of(*trained(wideresnet(9))), authors_name);
  const auto network = make_network(wideresnet(4), 2), fresh = make_network(wideresnet(4), 2);
  const std::string report = import_weights(*network, write(source)).report;
  EXPECT_NE(
      report.find("; the last layer starts anew: the file's has 9 outputs, the network has 4; not used: "
                  "fc.bias, fc.weight"),
      std::string::npos)
      << report;
  const Tensors after = tensors_of(*network), before = tensors_of(*fresh);
  EXPECT_TRUE(after.at("linear.weight").equal(before.at("linear.weight")));
  EXPECT_TRUE(after.at("linear.bias").equal(before.at("linear.bias")));
  EXPECT_TRUE(after.at("stem.weight").equal(source.at("conv1.weight")));

  Tensors headless = source;
  headless.erase("fc.weight");
  headless.erase("fc.bias");
  headless["optimiser"] = at::zeros({3});
  const std::string other = import_weights(*network, write(headless)).report;
  EXPECT_NE(other.find("the last layer starts anew: the file has none; not used: optimiser"),
            std::string::npos)
      << other;

  Tensors without_bias = renamed(tensors_of(*trained(wideresnet(4))), authors_name);
  without_bias.erase("fc.bias");
  const std::string third = import_weights(*network, write(without_bias)).report;
  EXPECT_NE(
      third.find("the last layer starts anew: the file has fc.weight but no fc.bias; not used: fc.weight"),
      std::string::npos)
      << third;
  EXPECT_TRUE(tensors_of(*network).at("linear.weight").equal(before.at("linear.weight")));
}

// Outputs of other classes mean something else, even if their number is the same.
TEST_F(Import, TakesALastLayerOnlyOfTheSameClasses) {
  TensorFile file;
  const auto source = trained(wideresnet(3));
  store_weights(*source, "", file);
  const auto fresh = make_network(wideresnet(3), 2);
  const auto report = [&](const std::string& detector, const std::vector<std::string>& names, bool takes) {
    file.metadata["detector"] = detector;
    write_safetensors(folder_ / "d.safetensors", file);
    const auto network = make_network(wideresnet(3), 2);
    const std::string text = import_weights(*network, folder_ / "d.safetensors", names).report;
    for (const char* name : {"linear.weight", "linear.bias"}) {
      EXPECT_TRUE(tensors_of(*network).at(name).equal(tensors_of(takes ? *source : *fresh).at(name))) << text;
    }
    EXPECT_TRUE(tensors_of(*network).at("stem.weight").equal(file.tensors.at("stem.weight")));
    return text;
  };
  const std::string known = R"({"class_names": ["bird", "cat", "dog"]})";
  EXPECT_EQ(report(known, {"bird", "cat", "dog"}, true).find("anew"), std::string::npos);
  EXPECT_NE(
      report(known, {"bird", "dog", "cat"}, false)
          .find("the last layer starts anew: its class 2 is 'cat', yours is 'dog'; not used: linear.bias"),
      std::string::npos);
  // Two classes and one for outliers have three outputs, too.
  EXPECT_NE(report(known, {"bird", "cat"}, false).find("the file has 3 classes, your images have 2"),
            std::string::npos);
  EXPECT_EQ(report(known, {}, true).find("anew"), std::string::npos);  // the caller does not know
  for (const char* unknown : {"{", "[]", "3", "{}", R"({"class_names": 3})"})
    EXPECT_EQ(report(unknown, {"bird", "dog", "cat"}, true).find("anew"), std::string::npos) << unknown;
  EXPECT_NE(
      report(R"({"class_names": [1, 2, 3]})", {"1", "2", "3"}, false).find("its class 1 is 1, yours is '1'"),
      std::string::npos);
}

TEST_F(Import, GivesAProjectionOrDensitiesOnlyWhatTheyShare) {
  const Tensors source = tensors_of(*trained(wideresnet()));
  NetworkSpec projection = wideresnet(), density = wideresnet(6);
  projection.head = HeadKind::kProjection;
  density.head = HeadKind::kDensity;
  density.pixels = 16;
  density.components = 2;
  for (const NetworkSpec& spec : {projection, density}) {
    const auto network = make_network(spec, 2);
    const Imported imported = import_weights(*network, write(source));
    EXPECT_TRUE(tensors_of(*network).at("stem.weight").equal(source.at("stem.weight")));
    EXPECT_EQ(tensors_of(*network).at("linear.bias").equal(source.at("linear.bias")),
              spec.head == HeadKind::kDensity)
        << imported.report;
  }
}

TEST_F(Import, NamesWhatDoesNotFit) {
  const NetworkSpec spec = wideresnet();
  const Tensors source = renamed(tensors_of(*trained(spec)), authors_name);
  const auto with = [&](const std::string& name, const at::Tensor& tensor) {
    Tensors changed = source;
    changed[name] = tensor;
    return changed;
  };
  Tensors without = source;
  without.erase("bn1.running_mean");
  expect_bad(spec, without, {"norm.running_mean is missing", "authors' WideResNet", "network.name"});
  expect_bad(spec, with("conv1.weight", at::zeros({16, 1, 3, 3})),
             {"does not fit wideresnet", "conv1.weight has shape [16, 1, 3, 3], expected [16, 3, 3, 3]"});
  expect_bad(spec, with("fc.weight", at::zeros({4, 65})),
             {"fc.weight has shape [4, 65], expected 64 columns"});
  // A deeper network has all tensors of a shallower one, and more.
  expect_bad(spec, with("block1.layer.1.conv1.weight", at::zeros({16, 16, 3, 3})),
             {"block1.layer.1.conv1.weight has no place"});
  expect_bad(wideresnet(4, 16), source, {"block1.layer2.conv1.weight is missing", "and 27 more"});
  expect_bad(spec, with("bn1.weight", at::zeros({64}, at::kLong)), {"'bn1.weight'", "int64", "float32"});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
    expect_bad(spec, with("bn1.weight", at::full({64}, bad)), {"'bn1.weight'", "not finite"});
}

TEST_F(Import, LeavesOutAPrefixThatAllNamesShare) {
  const NetworkSpec spec = wideresnet();
  const Tensors source = tensors_of(*trained(spec));
  for (const char* prefix : {"encoder.", "module.encoder.q."}) {
    const auto network = make_network(spec, 2);
    const auto named = [&](const std::string& name) { return prefix + authors_name(name); };
    const Imported imported = import_weights(*network, write(renamed(source, named)));
    EXPECT_TRUE(tensors_of(*network).at("stem.weight").equal(source.at("stem.weight")));
    EXPECT_TRUE(tensors_of(*network).at("linear.bias").equal(source.at("linear.bias")));
    EXPECT_NE(imported.report.find(std::string("without the prefix '") + prefix), std::string::npos)
        << imported.report;
  }
  // Not if only some have it: whose names they are is then unknown.
  Tensors mixed = renamed(source, [](const std::string& name) { return "encoder." + authors_name(name); });
  mixed["queue"] = at::zeros({1});
  expect_bad(spec, mixed, {"has no tensor of wideresnet", "does not know its names, such as 'encoder."});
  NetworkSpec densenet;
  densenet.depth = 10;
  mixed.erase("queue");
  expect_bad(densenet, mixed, {"authors' WideResNet"});
}

TEST_F(Import, SaysWhoseNamesTheFileHas) {
  const at::Tensor one = at::zeros({1});
  expect_bad(wideresnet(), {{"module.layer1.0.conv3.weight", one}}, {"torchvision's ResNet-50"});
  expect_bad(wideresnet(), {{"encoder.0.weight", one}, {"fc.weight", one}},
             {"has no tensor of wideresnet", "does not know its names, such as 'encoder.0.weight'"});
  expect_bad(wideresnet(), {}, {"it has no tensors"});
  expect_bad(wideresnet(), {{std::string(100000, 'a') + ".weight", one}}, {"does not know its names"});
  NetworkSpec densenet;
  densenet.depth = 10;
  expect_bad(densenet, renamed(tensors_of(*trained(wideresnet())), authors_name), {"authors' WideResNet"});
}

TEST_F(Import, RefusesOtherFiles) {
  const auto network = make_network(wideresnet(), 2);
  folder_.put("old.pth", "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");
  expect_error([&] { import_weights(*network, folder_ / "old.pth"); },
               {"old.pth", "is a pickle that poem does not read", "you trust it",
                "torch.load(FILE, weights_only=True)"});
  folder_.put("text.pth", "conv1.weight 1 2 3");
  expect_error([&] { import_weights(*network, folder_ / "text.pth"); }, {"text.pth", "PyTorch 1.6"});
  folder_.put("empty.pth", "");
  expect_error([&] { import_weights(*network, folder_ / "empty.pth"); }, {"empty.pth"});
  expect_error([&] { import_weights(*network, folder_ / "none.pth"); }, {"none.pth"});
}

TEST_F(Import, WarnsOfCifarsNormalisationForTorchvisionsWeights) {
  NetworkSpec spec;
  spec.name = "resnet18_224";
  TensorFile file;
  store_weights(*make_network(spec, 1), "", file);
  const std::string path = write(file.tensors);
  const auto warning = [&] { return import_weights(*make_network(spec, Weights(file, "")), path).warning; };
  EXPECT_NE(warning().find("[123.675, 116.28, 103.53]"), std::string::npos);
  spec.mean = {123.675, 116.28, 103.53};
  spec.std = {58.395, 57.12, 57.375};
  EXPECT_EQ(warning(), "");
}

TEST_F(Import, WarnsIfADetectorWasTrainedWithOtherPixels) {
  TensorFile file;
  store_weights(*make_network(wideresnet(), 1), "", file);
  const auto warning = [&](const std::string& detector) {
    file.metadata["detector"] = detector;
    write_safetensors(folder_ / "d.safetensors", file);
    return import_weights(*make_network(wideresnet(), 2), folder_ / "d.safetensors").warning;
  };
  EXPECT_EQ(warning(R"({"network": {"mean": [125.3, 123, 113.9], "std": [63.0, 62.1, 66.7]}})"), "");
  EXPECT_EQ(warning(R"({"network": {"mean": [1, 2, 3.5], "std": [63.0, 62.1, 66.7]}})"),
            "its network.mean is [1,2,3.5] and its network.std [63.0,62.1,66.7]; those of the config differ");
  for (const char* other : {"{", "[]", "3", "{}", R"({"network": 3})"})
    EXPECT_EQ(warning(other), "") << other;
}

// A network that takes no memory is enough to compare names and shapes.
TEST_F(Import, ChecksBeforeANetworkIsMade) {
  const Tensors source = tensors_of(*trained(wideresnet(9)));
  const auto network = make_network(wideresnet(2), Weights::none());
  EXPECT_NE(import_weights(*network, write(source)).report.find("has 9 outputs, the network has 2"),
            std::string::npos);
  Tensors bad = source;
  bad.erase("stem.weight");
  expect_error([&] { import_weights(*network, write(bad)); }, {"stem.weight is missing"});
}

}  // namespace
}  // namespace poem

#include "poem/network.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "poem/error.h"

namespace poem {
namespace {

NetworkSpec densenet(int64_t depth, int64_t growth = 12, int64_t classes = 10) {
  NetworkSpec spec;
  spec.depth = depth;
  spec.growth = growth;
  spec.classes = classes;
  return spec;
}

NetworkSpec wideresnet(int64_t depth, int64_t width, int64_t classes = 10) {
  NetworkSpec spec;
  spec.name = "wideresnet";
  spec.depth = depth;
  spec.width = width;
  spec.classes = classes;
  return spec;
}

NetworkSpec named(const std::string& name) {
  NetworkSpec spec;
  spec.name = name;
  return spec;
}

NetworkSpec mlp(std::vector<int64_t> hidden, int64_t channels = 2) {
  NetworkSpec spec = named("mlp");
  spec.hidden = std::move(hidden);
  spec.channels = channels;
  spec.mean.assign(channels, 0.0);
  spec.std.assign(channels, 1.0);
  return spec;
}

int64_t parameter_count(const NetworkSpec& spec) {
  int64_t count = 0;
  for (const auto& [name, tensor] : make_network(spec, 1)->parameters()) count += tensor.numel();
  return count;
}

std::map<std::string, at::Tensor> by_name(const Network::Named& named) {
  return {named.begin(), named.end()};
}

at::Tensor pixels(at::IntArrayRef sizes, uint64_t seed = 7) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randint(0, 256, sizes, generator, at::kByte);
}

// Largest difference, as a share of the largest value.
double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).abs().max() / b.abs().max()).item<double>();
}

// Running statistics and BatchNorm weights that differ from channel to channel, so that a mistake in their
// use shows.
void randomise(Network& network) {
  at::NoGradGuard no_grad;
  auto generator = at::detail::createCPUGenerator(3);
  for (auto& [name, tensor] : network.buffers()) tensor.uniform_(0.5, 1.5, generator);
  for (auto& [name, tensor] : network.parameters())
    if (tensor.dim() == 1) tensor.uniform_(0.5, 1.5, generator);
}

std::string error_of(const NetworkSpec& spec) {
  try {
    make_network(spec, 1);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string error_of(const NetworkSpec& spec, at::IntArrayRef sizes) {
  try {
    make_network(spec, 1)->features(at::zeros(sizes));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Network, HasThePublishedParameterCounts) {
  EXPECT_EQ(parameter_count(densenet(100)), 769162);
  // 90 more outputs of 342 weights and a bias each.
  EXPECT_EQ(parameter_count(densenet(100, 12, 100)), 769162 + 90 * 343);
  EXPECT_EQ(parameter_count(named("resnet18")), 11173962);
  EXPECT_EQ(parameter_count(named("resnet18_224")),
            11689512 - 990 * 513);  // torchvision's have 1,000 classes
  EXPECT_EQ(parameter_count(named("resnet50")), 25557032 - 990 * 2049);
  EXPECT_EQ(parameter_count(wideresnet(40, 2)), 2243546);
  EXPECT_EQ(parameter_count(mlp({64, 32})), 2 * 64 + 64 + 64 * 32 + 32 + 32 * 10 + 10);
}

TEST(Network, HasTheExpectedFeatureCounts) {
  EXPECT_EQ(make_network(densenet(100), 1)->feature_count(), 342);
  EXPECT_EQ(make_network(wideresnet(10, 1), 1)->feature_count(), 64);
  EXPECT_EQ(make_network(wideresnet(10, 3), 1)->feature_count(), 192);
  EXPECT_EQ(make_network(named("resnet18"), 1)->feature_count(), 512);
  EXPECT_EQ(make_network(mlp({64, 32}), 1)->feature_count(), 32);
}

TEST(Network, TakesImagesOfAnySize) {
  for (const NetworkSpec& spec : {densenet(10, 4, 5), wideresnet(10, 1, 5), named("resnet18")}) {
    const auto network = make_network(spec, 1);
    for (auto [height, width] : {std::pair{32, 32}, {64, 64}, {7, 4}}) {
      const at::Tensor features = network->features(pixels({2, 3, height, width}));
      EXPECT_EQ(features.sizes(), at::IntArrayRef({2, network->feature_count()})) << spec.name;
      EXPECT_EQ(features.scalar_type(), at::kFloat);
      EXPECT_EQ(network->logits(features).sizes(), at::IntArrayRef({2, spec.classes})) << spec.name;
    }
  }
}

TEST(Network, NamesEveryTensorOnce) {
  for (const NetworkSpec& spec : {densenet(16), wideresnet(16, 2), mlp({8})}) {
    const auto network = make_network(spec, 1);
    EXPECT_EQ(by_name(network->parameters()).size(), network->parameters().size()) << spec.name;
    EXPECT_EQ(by_name(network->buffers()).size(), network->buffers().size()) << spec.name;
    for (const auto& [name, tensor] : network->parameters()) EXPECT_TRUE(tensor.requires_grad()) << name;
    for (const auto& [name, tensor] : network->buffers()) EXPECT_FALSE(tensor.requires_grad()) << name;
  }
  const auto names = by_name(make_network(densenet(22), 1)->parameters());
  for (const char* name :
       {"stem.weight", "block1.layer3.conv2.weight", "transition2.norm.bias", "linear.bias"})
    EXPECT_EQ(names.count(name), 1u) << name;
}

TEST(Network, RefusesWhatCannotBeBuilt) {
  for (const char* part : {"network.name", "'vgg'", "densenet", "wideresnet", "resnet18", "mlp"})
    EXPECT_NE(error_of(named("vgg")).find(part), std::string::npos) << part;
  EXPECT_EQ(error_of(densenet(101)),
            "network.depth: 101 is not 6n+4 (the nearest valid depths are 100 and 106)");
  EXPECT_EQ(error_of(wideresnet(28, 0)), "network.width: is 0 (give at least 1)");
  EXPECT_EQ(error_of(wideresnet(4, 1)),
            "network.depth: 4 is not 6n+4 (the nearest valid depths are 10 and 16)");
  EXPECT_EQ(error_of(wideresnet(-3, 1)),
            "network.depth: -3 is not 6n+4 (the nearest valid depths are 10 and 16)");
  EXPECT_EQ(error_of(densenet(10, 0)), "network.growth: is 0 (give at least 1)");
  EXPECT_EQ(error_of(densenet(10, 4, 0)), "network.classes: is 0 (give 1 to 16777216)");
  EXPECT_EQ(error_of(mlp({})), "network.hidden: is empty (give the width of at least one layer)");
  EXPECT_EQ(error_of(mlp({8, 0})), "network.hidden: is 0 (give at least 1)");
  NetworkSpec spec = densenet(10);
  spec.channels = 1;
  EXPECT_EQ(error_of(spec),
            "network.mean: has 3 values for images of 1 channels (give one value per channel)");
  spec = densenet(10);
  spec.std[1] = 0;
  EXPECT_EQ(error_of(spec), "network.std: contains 0 (give positive values)");
  spec = wideresnet(10, 1);
  spec.init = Initialisation::kAuthors;
  EXPECT_EQ(
      error_of(spec),
      "network.init: 'authors' is not an initialisation of wideresnet (known: he, and authors for densenet)");
}

TEST(Network, RefusesImagesThatDoNotFit) {
  EXPECT_EQ(
      error_of(densenet(10), {1, 3, 32, 3}),
      "network.name: images of 32×3 pixels are too small: densenet halves them twice (give at least 4×4)");
  EXPECT_EQ(error_of(densenet(10), {1, 1, 32, 32}),
            "network.channels: images of shape 1×1×32×32 do not fit a network of 3 channels (give "
            "n×channels×height×width)");
  EXPECT_NE(error_of(wideresnet(10, 1), {3, 32, 32}), "no error");
  EXPECT_NE(error_of(wideresnet(10, 1), {1, 3, 0, 32}), "no error");
  EXPECT_EQ(
      error_of(mlp({8}), {1, 2, 1, 3}),
      "network.pixels: images of 1×3 pixels do not fit a perceptron for 1 (resize them or build the network "
      "for their size)");
}

TEST(Network, GivesNoFeaturesForNoImages) {
  at::NoGradGuard no_grad;
  for (const NetworkSpec& spec : {densenet(10, 4), wideresnet(10, 1)}) {
    const auto network = make_network(spec, 1);
    network->train(false);
    EXPECT_EQ(network->features(pixels({0, 3, 8, 8})).size(0), 0);
  }
}

TEST(Network, DrawsTheSameWeightsFromTheSameSeed) {
  const auto one = make_network(densenet(16), 5)->parameters();
  const auto same = make_network(densenet(16), 5)->parameters();
  const auto other = make_network(densenet(16), 6)->parameters();
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_TRUE(one[i].second.equal(same[i].second)) << one[i].first;
    const bool drawn = one[i].second.dim() > 1;
    EXPECT_EQ(drawn, !one[i].second.equal(other[i].second)) << one[i].first;
  }
}

TEST(Network, DrawsTheBackboneWhateverTheClasses) {
  for (NetworkSpec spec : {densenet(16), wideresnet(16, 1), mlp({8})}) {
    const auto ten = make_network(spec, 5)->parameters();
    spec.classes = 100;
    const auto hundred = make_network(spec, 5)->parameters();
    ASSERT_EQ(ten.size(), hundred.size());
    for (size_t i = 0; i + 2 < ten.size(); ++i)
      EXPECT_TRUE(ten[i].second.equal(hundred[i].second)) << ten[i].first;
  }
}

TEST(Network, StartsFromTheDocumentedDistributions) {
  const auto deviation = [](const at::Tensor& x) { return x.std().item<double>(); };
  // Sample deviations of n normal draws lie within 5 / sqrt(2n) of the truth.
  const auto he = by_name(make_network(densenet(100), 1)->parameters());
  EXPECT_NEAR(deviation(he.at("block3.layer16.conv1.weight")) / std::sqrt(2.0 / 48), 1,
              5 / std::sqrt(2.0 * 330 * 48));
  EXPECT_NEAR(deviation(he.at("block1.layer1.conv2.weight")) / std::sqrt(2.0 / (9 * 12)), 1,
              5 / std::sqrt(2.0 * 5184));
  NetworkSpec spec = densenet(100);
  spec.init = Initialisation::kAuthors;
  const auto authors = by_name(make_network(spec, 1)->parameters());
  EXPECT_NEAR(deviation(authors.at("block3.layer16.conv1.weight")) / std::sqrt(2.0 / 16), 1,
              5 / std::sqrt(2.0 * 330 * 48));
  EXPECT_TRUE(authors.at("linear.weight").equal(he.at("linear.weight")));
  EXPECT_LE(he.at("linear.weight").abs().max().item<double>(), 1 / std::sqrt(342.0));
  EXPECT_GT(he.at("linear.weight").abs().max().item<double>(), 0.99 / std::sqrt(342.0));
  EXPECT_EQ(he.at("linear.bias").abs().sum().item<double>(), 0);
  EXPECT_TRUE(he.at("norm.weight").equal(at::ones({342})));
  EXPECT_EQ(he.at("norm.bias").abs().sum().item<double>(), 0);
}

TEST(Network, NormalisesInside) {
  const NetworkSpec spec = wideresnet(10, 1);
  NetworkSpec bare = spec;
  bare.mean = {0, 0, 0};
  bare.std = {1, 1, 1};
  const at::Tensor images = pixels({4, 3, 8, 8});
  const at::Tensor before = images.clone();
  at::Tensor manual = images.to(at::kFloat).contiguous();
  for (int64_t c = 0; c < 3; ++c) manual.select(1, c).sub_(spec.mean[c]).div_(spec.std[c]);
  const at::Tensor expected = make_network(bare, 1)->features(manual);
  EXPECT_LT(relative_difference(make_network(spec, 1)->features(images), expected), 1e-5);
  EXPECT_LT(relative_difference(make_network(spec, 1)->features(images.to(at::kFloat)), expected), 1e-5);
  EXPECT_TRUE(images.equal(before));
}

TEST(Network, MixedBatchSharesBatchNormStatistics) {
  const auto network = make_network(densenet(10, 4), 1);
  const at::Tensor bright = pixels({3, 3, 8, 8}, 1), dark = pixels({5, 3, 8, 8}, 2).div(4, "floor");
  const at::Tensor mixed = network->features(at::cat({bright, dark}));
  EXPECT_GT(relative_difference(network->features(bright), mixed.narrow(0, 0, 3)), 0.05);
  EXPECT_GT(relative_difference(network->features(dark), mixed.narrow(0, 3, 5)), 0.05);
}

// The first BatchNorm of a dense network sees the stem's output, which is computed here by a plain loop.
TEST(Network, RunningStatisticsAreThoseOfTheMixedBatch) {
  const NetworkSpec spec = densenet(10, 2);
  const auto network = make_network(spec, 1);
  const int64_t n = 6, size = 5;
  const at::Tensor id = pixels({2, 3, size, size}, 1),
                   outliers = pixels({4, 3, size, size}, 2).div(4, "floor");
  const at::Tensor batch = at::cat({id, outliers});
  network->features(batch);

  const auto weights = by_name(network->parameters()).at("stem.weight").detach().contiguous();
  const auto w = weights.accessor<float, 4>();
  const auto image = batch.accessor<uint8_t, 4>();
  const auto state = by_name(network->buffers());
  for (int64_t out = 0; out < 4; ++out) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t y = 0; y < size; ++y)
        for (int64_t x = 0; x < size; ++x) {
          double value = 0;
          for (int64_t c = 0; c < 3; ++c)
            for (int64_t dy = -1; dy <= 1; ++dy)
              for (int64_t dx = -1; dx <= 1; ++dx)
                if (y + dy >= 0 && y + dy < size && x + dx >= 0 && x + dx < size)
                  value +=
                      w[out][c][dy + 1][dx + 1] * (image[i][c][y + dy][x + dx] - spec.mean[c]) / spec.std[c];
          sum += value;
          square += value * value;
        }
    const double count = static_cast<double>(n * size * size), mean = sum / count;
    const double variance = (square - sum * mean) / (count - 1);
    EXPECT_NEAR(state.at("block1.layer1.norm1.running_mean")[out].item<double>(), 0.1 * mean, 1e-5);
    EXPECT_NEAR(state.at("block1.layer1.norm1.running_var")[out].item<double>(), 0.9 + 0.1 * variance, 1e-5);
  }
}

TEST(Network, EvaluationDoesNotDependOnTheBatch) {
  at::NoGradGuard no_grad;
  for (const NetworkSpec& spec : {densenet(16, 4), wideresnet(10, 1), named("resnet18")}) {
    const auto network = make_network(spec, 1);
    randomise(*network);
    network->train(false);
    const auto before = by_name(network->buffers()).at("norm.running_mean").clone();
    const at::Tensor images = pixels({40, 3, 8, 8});
    const at::Tensor together = network->features(images);
    for (int64_t i : {0, 17, 39})
      EXPECT_LT(relative_difference(network->features(images.narrow(0, i, 1)), together.narrow(0, i, 1)),
                1e-5)
          << spec.name;
    EXPECT_TRUE(before.equal(by_name(network->buffers()).at("norm.running_mean")));
  }
}

// Gradients on make evaluation take the plain path.
TEST(Network, InferenceEqualsPlainEvaluation) {
  for (const NetworkSpec& spec : {densenet(22, 12), densenet(10, 5), wideresnet(16, 1)}) {
    const auto network = make_network(spec, 1);
    randomise(*network);
    network->train(false);
    for (int64_t size : {32, 13}) {
      const at::Tensor images = pixels({19, 3, size, size});
      const at::Tensor plain = network->features(images);
      ASSERT_TRUE(plain.requires_grad());
      at::NoGradGuard no_grad;
      EXPECT_LT(relative_difference(network->features(images), plain), 1e-4) << spec.name << " " << size;
    }
  }
}

TEST(Network, TakesImagesInAnyLayout) {
  const auto network = make_network(densenet(10, 4), 1);
  const at::Tensor images = pixels({4, 3, 8, 8});
  const at::Tensor expected = network->features(images);
  EXPECT_LT(
      relative_difference(network->features(images.contiguous(at::MemoryFormat::ChannelsLast)), expected),
      1e-5);
  EXPECT_LT(
      relative_difference(network->features(images.transpose(2, 3).contiguous().transpose(2, 3)), expected),
      1e-5);
}

// An independent reading of Huang et al. 2017 from the named tensors.
at::Tensor naive_densenet(const NetworkSpec& spec, const Network& network, at::Tensor x, bool training) {
  auto w = by_name(network.parameters());
  auto state = by_name(network.buffers());
  const auto norm_relu = [&](const std::string& name, const at::Tensor& in) {
    at::Tensor mean = state.at(name + ".running_mean"), var = state.at(name + ".running_var");
    if (training) {
      mean = in.mean({0, 2, 3});
      var = in.var({0, 2, 3}, /*unbiased=*/false);
    }
    const auto shape = [](const at::Tensor& t) { return t.view({1, -1, 1, 1}); };
    const at::Tensor unit = (in - shape(mean)) / (shape(var) + 1e-5).sqrt();
    return (unit * shape(w.at(name + ".weight")) + shape(w.at(name + ".bias"))).clamp_min(0);
  };
  const auto conv = [&](const std::string& name, const at::Tensor& in, int64_t padding) {
    return at::conv2d(in, w.at(name + ".weight").contiguous(), {}, 1, padding);
  };
  x = conv("stem", x, 1);
  for (int block = 1; block <= 3; ++block) {
    for (int layer = 1; layer <= (spec.depth - 4) / 6; ++layer) {
      const std::string name = "block" + std::to_string(block) + ".layer" + std::to_string(layer);
      const at::Tensor y = conv(name + ".conv1", norm_relu(name + ".norm1", x), 0);
      x = at::cat({x, conv(name + ".conv2", norm_relu(name + ".norm2", y), 1)}, 1);
    }
    if (block == 3) break;
    const std::string name = "transition" + std::to_string(block);
    x = at::avg_pool2d(conv(name + ".conv", norm_relu(name + ".norm", x), 0), 2);
  }
  return norm_relu("norm", x).mean({2, 3});
}

TEST(DenseNet, EqualsANaiveImplementation) {
  at::NoGradGuard no_grad;
  NetworkSpec spec = densenet(22, 5);
  spec.mean = {0, 0, 0};
  spec.std = {1, 1, 1};
  const auto network = make_network(spec, 1);
  randomise(*network);
  const at::Tensor images = at::randn({6, 3, 12, 12}, at::detail::createCPUGenerator(9));
  for (bool training : {false, true}) {
    network->train(training);
    const at::Tensor expected = naive_densenet(spec, *network, images, training);
    EXPECT_LT(relative_difference(network->features(images), expected), 1e-4) << training;
  }
}

// In float64, where a step of 1e-6 leaves about nine digits of a central difference; ReLU's kinks are met
// with a probability of the same order.
TEST(Network, GradientEqualsFiniteDifferences) {
  for (NetworkSpec spec : {densenet(10, 2, 3), wideresnet(10, 1, 3), mlp({5, 4}, 3)}) {
    spec.mean = {0, 0, 0};
    spec.std = {1, 1, 1};
    const auto network = make_network(spec, 1);
    for (auto& [name, tensor] : network->parameters()) tensor.set_data(tensor.to(at::kDouble));
    for (auto& [name, tensor] : network->buffers()) tensor.set_data(tensor.to(at::kDouble));
    const int64_t size = spec.name == "mlp" ? 1 : 4;
    const at::Tensor images =
        at::randn({4, 3, size, size}, at::detail::createCPUGenerator(11)).to(at::kDouble);
    const at::Tensor labels = at::tensor({0, 1, 2, 1}, at::kLong);
    const auto loss = [&] {
      return at::cross_entropy_loss(network->logits(network->features(images)), labels);
    };
    loss().backward();
    at::NoGradGuard no_grad;
    for (auto& [name, tensor] : network->parameters()) {
      for (int64_t i : {int64_t{0}, tensor.numel() / 2}) {
        double& value = tensor.data_ptr<double>()[i];  // the gradient lies in memory as the weights do
        const double analytic = tensor.grad().as_strided({tensor.numel()}, {1})[i].item<double>();
        const double saved = value, step = 1e-6;
        value = saved + step;
        const double above = loss().item<double>();
        value = saved - step;
        const double below = loss().item<double>();
        value = saved;
        EXPECT_NEAR((above - below) / (2 * step), analytic, 1e-7 + 1e-5 * std::abs(analytic))
            << name << " " << i;
      }
    }
  }
}

TEST(Layers, EndWithTheFeaturesAndStartWithTheStem) {
  const at::NoGradGuard no_grad;
  const auto widths = [](const NetworkSpec& spec, at::IntArrayRef image) {
    const auto network = make_network(spec, 1);
    const at::Tensor x = pixels(image);
    network->features(x);  // moves the statistics away from their defaults
    network->train(false);
    const std::vector<at::Tensor> layers = network->layers(x);
    EXPECT_TRUE(at::allclose(layers.back(), network->features(x), 1e-4, 1e-5)) << spec.name;
    std::vector<int64_t> counts;
    for (const at::Tensor& layer : layers) {
      EXPECT_EQ(layer.dim(), 2) << spec.name;
      EXPECT_EQ(layer.size(0), image[0]) << spec.name;
      counts.push_back(layer.size(1));
    }
    return counts;
  };
  // 40 images: more than the few that DenseNet takes at a time.
  EXPECT_EQ(widths(densenet(10), {40, 3, 16, 16}), (std::vector<int64_t>{24, 18, 15, 27}));
  EXPECT_EQ(widths(wideresnet(16, 1), {3, 3, 8, 8}), (std::vector<int64_t>{16, 16, 32, 64}));
  EXPECT_EQ(widths(named("resnet18"), {2, 3, 8, 8}), (std::vector<int64_t>{64, 64, 128, 256, 512}));
  EXPECT_EQ(widths(named("resnet50"), {2, 3, 32, 32}), (std::vector<int64_t>{64, 256, 512, 1024, 2048}));
  EXPECT_EQ(widths(mlp({7, 5, 4}), {3, 2, 1, 1}), (std::vector<int64_t>{7, 5, 4}));
}

TEST(Layers, TheStemIsAveragedOverSpace) {
  const at::NoGradGuard no_grad;
  const auto network = make_network(densenet(10), 1);
  network->train(false);
  const at::Tensor x = pixels({2, 3, 8, 8});
  const at::Tensor mean = at::tensor(network->spec().mean, at::kFloat).view({3, 1, 1}),
                   std = at::tensor(network->spec().std, at::kFloat).view({3, 1, 1});
  const at::Tensor stem =
      at::conv2d((x - mean) / std, by_name(network->parameters()).at("stem.weight"), {}, 1, 1);
  EXPECT_TRUE(at::allclose(network->layers(x)[0], stem.mean({2, 3}), 1e-4, 1e-5));
}

}  // namespace
}  // namespace poem

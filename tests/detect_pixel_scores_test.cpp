// Scores that need the network: gradients by finite differences, fits that see no OOD image, forward passes.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "core/safetensors.h"
#include "detect/held_out.h"
#include "detect/input_gradient.h"
#include "detect/logistic.h"
#include "expect_error.h"
#include "poem/evaluate.h"
#include "poem/fit.h"
#include "temporary_folder.h"

namespace poem {
namespace {

constexpr int64_t kClasses = 3, kSide = 4;

ImageSet noise(int64_t count, uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return {"noise",
          at::randint(0, 256, {count, 3, kSide, kSide}, generator, at::kByte),
          at::arange(count, at::kLong).remainder(kClasses),
          {"a", "b", "c"}};
}

// A small perceptron, as it is with one output beyond the classes; in float64 where differences are taken.
Detector small_detector(at::ScalarType type = at::kFloat, uint64_t seed = 3,
                        HeadKind head = HeadKind::kLinear) {
  NetworkSpec spec;
  spec.name = "mlp";
  spec.hidden = {6, 5};
  spec.pixels = kSide * kSide;
  spec.head = head;
  spec.components = 2;
  spec.classes = kClasses + (head == HeadKind::kDensity ? 2 : 1);
  Detector detector{make_network(spec, seed), make_score("energy"), 0.5, {"a", "b", "c"}, kSide};
  for (auto& [name, tensor] : detector.network->parameters()) tensor.set_data(tensor.to(type) * 2);
  detector.network->train(false);
  return detector;
}

// Two-sided differences of each image's loss, pixel by pixel of all images at once.
at::Tensor differences(const at::Tensor& pixels, const std::function<at::Tensor(const at::Tensor&)>& loss) {
  const at::NoGradGuard no_grad;
  constexpr double kStep = 1.0 / 64;
  const at::Tensor x = pixels.to(at::kFloat).clone();
  const at::Tensor result = at::empty_like(x), flat = x.flatten(1), slopes = result.view(flat.sizes());
  for (int64_t i = 0; i < flat.size(1); ++i) {
    const at::Tensor pixel = flat.select(1, i), old = pixel.clone();
    pixel.copy_(old + kStep);
    const at::Tensor above = loss(x).to(at::kDouble);
    pixel.copy_(old - kStep);
    const at::Tensor below = loss(x).to(at::kDouble);
    pixel.copy_(old);
    slopes.select(1, i).copy_((above - below) / (2 * kStep));
  }
  return result;
}

at::Tensor class_logits(Network& network, const at::Tensor& x) {
  return network.logits(network.features(x)).narrow(1, 0, kClasses);
}

TEST(InputGradients, EqualDifferences) {
  const Detector detector = small_detector(at::kDouble);
  Network& network = *detector.network;
  const at::Tensor pixels = noise(4, 1).pixels;
  const auto energy = [&](const at::Tensor& x) { return class_logits(network, x).logsumexp(1); };
  const auto stem = [&](const at::Tensor& x) { return network.layers(x)[0].square().sum(1); };
  const auto gradients = input_gradients(pixels, [&](const at::Tensor& x) {
    return std::vector<at::Tensor>{energy(x), stem(x)};
  });
  ASSERT_EQ(gradients.size(), 2u);
  EXPECT_TRUE(at::allclose(gradients[0], differences(pixels, energy), 1e-3, 1e-6));
  EXPECT_TRUE(at::allclose(gradients[1], differences(pixels, stem), 1e-3, 1e-6));
  for (const auto& [name, tensor] : network.parameters()) EXPECT_FALSE(tensor.grad().defined()) << name;
}

IdImages id_images() { return {noise(150, 2), noise(40, 3)}; }

double fitted_step(Score& score) {
  TensorFile file;
  score.store(file, "");
  return file.tensor("step").item<double>();
}

// ODIN's score of pixels as they are, and a step along the signs of its numerical gradient.
at::Tensor odin_softmax(Network& network, const at::Tensor& x) {
  return (class_logits(network, x) / 1000).softmax(1).amax(1);
}
at::Tensor odin_direction(Network& network, const at::Tensor& pixels) {
  return differences(pixels, [&](const at::Tensor& x) { return odin_softmax(network, x).log(); }).sign();
}

// The held-out images moved by 0.05 away from the class that the network predicts.
at::Tensor attacked(Network& network, const at::Tensor& pixels) {
  const auto confidence = [&](const at::Tensor& x) {
    return class_logits(network, x).log_softmax(1).amax(1);
  };
  return (pixels - 0.05 * 255 * differences(pixels, confidence).sign()).clamp(0, 255);
}

// The share of pairs in the right order, ties at one half.
double naive_auroc(const at::Tensor& id, const at::Tensor& ood) {
  const at::Tensor a = id.to(at::kFloat).unsqueeze(1), b = ood.to(at::kFloat).unsqueeze(0);
  return (a.gt(b).to(at::kDouble) + 0.5 * a.eq(b).to(at::kDouble)).mean().item<double>();
}

TEST(Odin, StepsInPixelSpace) {
  Detector detector = small_detector(at::kDouble);
  Network& network = *detector.network;
  detector.score = fit_scores({"odin"}, detector, id_images()).front();
  const double step = fitted_step(*detector.score);
  const ImageSet images = noise(70, 1);  // more than are moved at a time
  const at::Tensor scores = detector.scores(images);
  const at::Tensor pixels = images.pixels.narrow(0, 62, 5);  // across the two
  const at::Tensor moved = pixels.to(at::kFloat) + step * 255 * odin_direction(network, pixels);
  const at::Tensor expected = odin_softmax(network, moved).to(at::kFloat);
  EXPECT_TRUE(at::allclose(scores.narrow(0, 62, 5), expected, 1e-7, 1e-8));
  EXPECT_TRUE((expected >= odin_softmax(network, pixels)).all().item<bool>());  // the step raises it
}

TEST(Odin, ChoosesTheStepThatBruteForceFinds) {
  std::set<double> chosen;
  for (const uint64_t seed : {3, 4, 5, 6}) {
    const Detector detector = small_detector(at::kDouble, seed);
    Network& network = *detector.network;
    const IdImages id = id_images();
    const double step = fitted_step(*fit_scores({"odin"}, detector, id).front());
    const at::Tensor pixels = id.held_out.pixels.to(at::kFloat), copies = attacked(network, pixels);
    const at::Tensor forth = odin_direction(network, pixels), back = odin_direction(network, copies);
    double best = -1, found = -1;
    for (int i = 0; i <= 20; ++i) {
      const double size = i * 0.0002;
      const double auroc = naive_auroc(odin_softmax(network, pixels + size * 255 * forth),
                                       odin_softmax(network, copies + size * 255 * back));
      if (auroc > best) std::tie(best, found) = std::pair{auroc, size};
    }
    EXPECT_DOUBLE_EQ(step, found) << "network " << seed;
    chosen.insert(step);
  }
  EXPECT_GT(chosen.size(), 1u) << "nothing was chosen";
}

// max −½d² at one layer, with means and covariance of the training images worked out directly.
std::function<at::Tensor(const at::Tensor&)> direct_score(Network& network, const ImageSet& train,
                                                          size_t layer) {
  const at::Tensor h = network.layers(train.pixels)[layer].detach().to(at::kFloat).to(at::kDouble);
  at::Tensor covariance = at::zeros({h.size(1), h.size(1)}, at::kDouble);
  std::vector<at::Tensor> means;
  for (int64_t c = 0; c < kClasses; ++c) {
    const at::Tensor rows = h.index_select(0, (train.labels == c).nonzero().squeeze(1));
    means.push_back(rows.mean(0));
    covariance += (rows - means.back()).t().mm(rows - means.back()) / train.size();
  }
  return [&network, layer, means, precision = at::linalg_inv(covariance)](const at::Tensor& x) {
    std::vector<at::Tensor> d;
    const at::Tensor f = network.layers(x)[layer].detach();
    for (const at::Tensor& mean : means) d.push_back(((f - mean).mm(precision) * (f - mean)).sum(1));
    return at::stack(d, 1).amin(1) * -0.5;
  };
}

TEST(Mahalanobis, EqualsDirectDistancesAfterTheStep) {
  Detector detector = small_detector(at::kDouble);
  const IdImages id = id_images();
  detector.score = fit_scores({"mahalanobis"}, detector, id).front();
  TensorFile file;
  detector.score->store(file, "");
  for (const auto& [name, tensor] : file.tensors) EXPECT_FALSE(tensor.requires_grad()) << name;
  const double step = file.tensor("step").item<double>();
  const at::Tensor w = file.tensor("coefficients");
  ASSERT_EQ(w.numel(), 3);  // two layers and the intercept
  const at::Tensor pixels = noise(6, 7).pixels;
  at::Tensor expected = w[2].expand({6}).clone();
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto score = direct_score(*detector.network, id.train, layer);
    const at::Tensor moved = pixels.to(at::kFloat) + 255 * step * differences(pixels, score).sign();
    expected = expected + w[layer] * score(moved);
  }
  ImageSet images = noise(6, 7);
  EXPECT_TRUE(at::allclose(detector.scores(images).to(at::kDouble), expected, 1e-4, 1e-4));
}

// By step, n×2: both layers' scores of the pixels moved for that layer.
std::vector<at::Tensor> scores_by_step(Network& network, const ImageSet& train, const at::Tensor& pixels,
                                       const std::vector<double>& steps) {
  std::vector<std::vector<at::Tensor>> scores(steps.size());
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto score = direct_score(network, train, layer);
    const at::Tensor direction = differences(pixels, score).sign();
    for (size_t i = 0; i < steps.size(); ++i) scores[i].push_back(score(pixels + 255 * steps[i] * direction));
  }
  std::vector<at::Tensor> stacked;
  for (const auto& layers : scores) stacked.push_back(at::stack(layers, 1));
  return stacked;
}

TEST(Mahalanobis, ChoosesTheStepThatBruteForceFinds) {
  std::set<double> chosen;
  for (const uint64_t seed : {3, 4, 5, 6}) {
    const Detector detector = small_detector(at::kDouble, seed);
    const IdImages id = id_images();
    const double step = fitted_step(*fit_scores({"mahalanobis"}, detector, id).front());
    const at::Tensor pixels = id.held_out.pixels.to(at::kFloat);
    const at::Tensor copies = attacked(*detector.network, pixels);
    const std::vector<double> steps = {0, 0.01, 0.005, 0.002, 0.0014, 0.001, 0.0005};
    const auto known = scores_by_step(*detector.network, id.train, pixels, steps);
    const auto other = scores_by_step(*detector.network, id.train, copies, steps);
    const auto half = [](const at::Tensor& rows, int64_t first) { return rows.slice(0, first, {}, 2); };
    double best = -1, found = -1;
    for (size_t i = 0; i < steps.size(); ++i) {
      const at::Tensor fit = fit_logistic(half(known[i], 0), half(other[i], 0));
      const double auroc =
          naive_auroc(logistic_logits(fit, half(known[i], 1)), logistic_logits(fit, half(other[i], 1)));
      if (auroc > best) std::tie(best, found) = std::pair{auroc, steps[i]};
    }
    EXPECT_DOUBLE_EQ(step, found) << "network " << seed;
    chosen.insert(step);
  }
  EXPECT_GT(chosen.size(), 1u) << "nothing was chosen";
}

TEST(Mahalanobis, TellsImagesFromAttackedOnes) {
  Detector detector = small_detector();
  detector.score = fit_scores({"mahalanobis"}, detector, id_images()).front();
  const ImageSet images = noise(200, 11);
  const at::Tensor gradient = input_gradients(images.pixels, [&](const at::Tensor& x) {
    const at::Tensor z = class_logits(*detector.network, x);
    return std::vector<at::Tensor>{-z.log_softmax(1).amax(1)};
  })[0];
  ImageSet attacked = images;
  attacked.pixels = (images.pixels + 0.05 * 255 * gradient.sign()).clamp(0, 255).to(at::kByte);
  const Results results = evaluate(detector, {detector.score}, {images, {{"attacked", attacked}}})[0];
  EXPECT_GT(results.mean.auroc, 0.5);
}

TEST(PixelScores, ComeBackFromADetectorsFile) {
  TemporaryFolder folder;
  for (const char* name : {"odin", "mahalanobis", "knn", "reject"}) {
    Detector detector = small_detector();
    const std::optional<IdImages> id = id_images();
    detector.score =
        fit_scores({name}, Detector{detector.network, nullptr, {}, {"a", "b", "c"}, kSide}, id)[0];
    detector.save(folder / name);
    const Detector loaded = Detector::load(folder / name);
    const ImageSet images = noise(20, 9);
    EXPECT_EQ(loaded.score->name(), name);
    EXPECT_TRUE(loaded.scores(images).equal(detector.scores(images))) << name;
    const std::vector<Verdict> verdicts = loaded.judge(images);
    EXPECT_EQ(verdicts[19].score, loaded.scores(images)[19].item<float>()) << name;
    for (const Verdict& verdict : verdicts) EXPECT_LT(verdict.label, kClasses);
  }
}

class CountingNetwork : public Network {
 public:
  explicit CountingNetwork(std::shared_ptr<Network> inner) : Network(inner->spec()), inner_(inner) {}
  at::Tensor features(const at::Tensor& images) override {
    count += images.size(0);
    return inner_->features(images);
  }
  at::Tensor logits(const at::Tensor& features) override { return inner_->logits(features); }
  int64_t feature_count() const override { return inner_->feature_count(); }
  std::vector<at::Tensor> layers(const at::Tensor& images) override { return inner_->layers(images); }
  Named parameters() const override { return inner_->parameters(); }
  Named buffers() const override { return inner_->buffers(); }
  void train(bool on) override { inner_->train(on); }
  void use_bf16(bool on) override { inner_->use_bf16(on); }
  void to(const at::Device& device) override { inner_->to(device); }
  void freeze_backbone() override { inner_->freeze_backbone(); }
  int64_t count = 0;  // images that went through

 private:
  std::shared_ptr<Network> inner_;
};

TEST(Evaluate, OneForwardPassServesAllScoresOfFeatures) {
  Detector detector = small_detector();
  const auto network = std::make_shared<CountingNetwork>(detector.network);
  detector.network = network;
  const std::vector<std::string> names = {"msp",   "maxlogit", "energy", "mds",          "rmds", "knn",
                                          "react", "dice",     "ash",    "scale",        "vim",  "gen",
                                          "fdbd",  "ssd",      "reject", "reject_energy"};
  const auto scores = fit_scores(names, detector, id_images());
  EXPECT_EQ(network->count, 150);  // the training images once
  network->count = 0;
  EXPECT_EQ(evaluate(detector, scores, {noise(20, 4), {{"x", noise(10, 5)}, {"y", noise(7, 6)}}}).size(),
            16u);
  EXPECT_EQ(network->count, 37);
}

TEST(FitScores, AshAndScaleNeedNoImages) {
  Detector detector = small_detector();
  const auto network = std::make_shared<CountingNetwork>(detector.network);
  detector.network = network;
  const auto with = fit_scores({"ash", "scale"}, detector, id_images());
  const auto without = fit_scores({"ash", "scale"}, detector, std::nullopt);
  EXPECT_EQ(network->count, 0);
  detector.for_each_batch(noise(20, 4), [&](const Batch& batch) {
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE((*with[i])(batch).equal((*without[i])(batch))) << i;
  });
}

// Scores of features do not see the densities of pixels that CCU's network appends to them.
TEST(FitScores, OfFeaturesAreThoseOfTheClassifierInsideCcu) {
  const Detector plain = small_detector(), ccu = small_detector(at::kFloat, 3, HeadKind::kDensity);
  const std::vector<std::string> names = {"knn", "ssd", "mds", "rmds"};
  const auto expected = fit_scores(names, plain, id_images()), got = fit_scores(names, ccu, id_images());
  const ImageSet images = noise(20, 4);
  for (size_t i = 0; i < names.size(); ++i) {
    const Detector one{plain.network, expected[i], {}, plain.class_names, kSide},
        other{ccu.network, got[i], {}, plain.class_names, kSide};
    EXPECT_TRUE(at::allclose(one.scores(images), other.scores(images), 1e-5, 1e-6)) << names[i];
  }
}

TEST(HeldOut, TakesFiveHundredEvenlyAndAllOfFewer) {
  const Detector detector = small_detector();
  for (const int64_t count : {1, 499, 500, 501, 1001, 5000}) {
    Training training;
    training.network = detector.network.get();
    training.classes = kClasses;
    training.size = kSide;
    training.held_out = noise(count, 1);
    // An image's number, in base 200, is its first two pixels.
    const at::Tensor number = at::arange(count, at::kLong), flat = training.held_out.pixels.view({count, -1});
    flat.select(1, 0).copy_(number.remainder(200));
    flat.select(1, 1).copy_(number.div(200, "floor"));
    std::vector<int64_t> taken;
    for_each_held_out(training, [&](const at::Tensor& pixels, const at::Tensor&) {
      const at::Tensor rows = pixels.flatten(1).to(at::kLong);
      for (int64_t i = 0; i < rows.size(0); ++i)
        taken.push_back(rows[i][0].item<int64_t>() + 200 * rows[i][1].item<int64_t>());
    });
    const int64_t wanted = std::min<int64_t>(count, 500);
    ASSERT_EQ(static_cast<int64_t>(taken.size()), wanted) << count;
    EXPECT_EQ(taken.front(), 0);
    EXPECT_EQ(taken.back(), count - (count + wanted - 1) / wanted) << count;
    for (size_t i = 1; i < taken.size(); ++i) {
      EXPECT_GE(taken[i] - taken[i - 1], count / wanted) << count;
      EXPECT_LE(taken[i] - taken[i - 1], (count + wanted - 1) / wanted) << count;
    }
  }
}

// That no fit sees a test set is shown where test sets are read: Methods.TestSetsLeaveNoTraceInTheDetector
// and the tests of poem eval and poem posthoc.
TEST(Evaluate, ScoringASetChangesNoScoreAndNoFigureOfAnother) {
  const Detector detector = small_detector();
  const std::vector<std::string> all = choose_scores({"all"}, available(detector, id_images()));
  EXPECT_EQ(all.size(), score_names().size());
  const auto scores = fit_scores(all, detector, id_images());
  const auto state = [&] {
    TensorFile file;
    for (const auto& score : scores) score->store(file, score->name() + ".");
    for (auto& [name, tensor] : file.tensors) tensor = tensor.clone();
    return file.tensors;
  };
  const auto before = state();
  const ImageSet id = noise(20, 4), clean = noise(15, 5);
  ImageSet poison = noise(15, 5);
  poison.pixels.fill_(255);
  const auto first = evaluate(detector, scores, {id, {{"a", clean}, {"b", clean}}});
  const auto second = evaluate(detector, scores, {id, {{"a", clean}, {"b", poison}}});
  for (size_t i = 0; i < scores.size(); ++i) {
    const OodMetrics &one = first[i].sets[0].metrics, &two = second[i].sets[0].metrics;
    EXPECT_EQ(one.auroc, two.auroc) << all[i];
    EXPECT_EQ(one.fpr95, two.fpr95) << all[i];
    EXPECT_EQ(one.threshold, two.threshold) << all[i];
    EXPECT_EQ(first[i].sets[1].metrics.auroc, one.auroc) << all[i];
    EXPECT_NE(second[i].sets[1].metrics.aupr_in, one.aupr_in) << all[i];
  }
  for (const auto& [name, tensor] : state()) EXPECT_TRUE(tensor.equal(before.at(name))) << name;
}

TEST(Detector, AFileWhoseScoreDoesNotFitItsNetworkIsAnError) {
  TemporaryFolder folder;
  using Tensors = std::map<std::string, at::Tensor>;
  const auto expect_refused = [&](const std::string& name, const std::function<void(Tensors&)>& spoil) {
    Detector detector = small_detector();
    detector.score = nullptr;
    detector.score = fit_scores({name}, detector, id_images())[0];
    detector.save(folder / "good");
    Detector::load(folder / "good");
    TensorFile file = read_safetensors(folder / "good");
    spoil(file.tensors);
    write_safetensors(folder / "bad", file);
    expect_error([&] { Detector::load(folder / "bad"); },
                 {"bad", "'" + name + "'", "do not fit its network"});
  };
  const auto narrower = [](const std::string& tensor) {
    return [=](Tensors& t) {
      at::Tensor& rows = t.at("score." + tensor);
      rows = rows.narrow(-1, 0, rows.size(-1) - 1).contiguous();
    };
  };
  expect_refused("knn", narrower("features"));
  expect_refused("knn", [](Tensors& t) { t["score.features"] = t["score.features"].to(at::kLong); });
  expect_refused("ssd", narrower("centre"));
  expect_refused("rmds", narrower("all_means"));
  expect_refused("react", narrower("weight"));
  expect_refused("vim", [](Tensors& t) { t["score.alpha"] = at::ones({3}, at::kDouble); });
  expect_refused("fdbd", [](Tensors& t) { t["score.apart"] = at::ones({2, 3}, at::kDouble); });
  expect_refused("odin", [](Tensors& t) { t["score.step"] = at::ones({2}, at::kDouble); });
  expect_refused("mahalanobis", narrower("layer0.centre"));
  expect_refused("mahalanobis", narrower("coefficients"));
  expect_refused("mahalanobis", [](Tensors& t) { t.erase("score.layer1.centre"); });  // one layer less
}

TEST(FitScores, WhatCannotBeFittedIsAnError) {
  const Detector detector = small_detector();
  expect_error([&] { fit_scores({"vim"}, detector, std::nullopt); }, {"'vim'", "ID training images"});
  IdImages id = id_images();
  id.held_out.pixels = id.held_out.pixels.narrow(0, 0, 1);
  expect_error([&] { fit_scores({"mahalanobis"}, detector, id); }, {"'mahalanobis'", "not trained on"});
  expect_error([&] { fit_scores({"odin"}, detector, id); }, {"'odin'", "not trained on", "data.validation"});
  expect_error([&] { fit_scores({"odin"}, detector, std::nullopt); }, {"'odin'", "option train"});
  Detector plain = small_detector();
  plain.class_names.push_back("d");
  expect_error([&] { fit_scores({"reject"}, plain, id); }, {"'reject'", "beyond the classes"});
}

TEST(Evaluate, OutputsBeyondTheClassesAreNoClasses) {
  const Detector detector = small_detector();
  {
    const at::NoGradGuard no_grad;
    for (auto& [name, tensor] : detector.network->parameters()) {
      if (name == "linear.bias") tensor[kClasses] = 1000;  // the reject output wins everywhere
    }
  }
  const ImageSet images = noise(30, 4);
  EXPECT_EQ(detector.logits(images).size(1), kClasses);
  for (const Verdict& verdict : detector.judge(images)) EXPECT_LT(verdict.label, kClasses);
  const Results results = evaluate(detector, "energy", {images, {{"x", noise(5, 5)}}});
  const at::Tensor labels = detector.logits(images).argmax(1);
  EXPECT_DOUBLE_EQ(*results.id_accuracy, (labels == images.labels).to(at::kDouble).mean().item<double>());
}

}  // namespace
}  // namespace poem

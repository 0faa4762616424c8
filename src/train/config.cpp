#include "poem/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <variant>

#include "core/json_text.h"
#include "core/text.h"
#include "images/filters.h"
#include "poem/error.h"
#include "poem/scores.h"
#include "train/config_keys.h"

namespace poem {
namespace {

std::vector<std::string> with_none(std::vector<std::string> names) {
  names.insert(names.begin(), "none");
  return names;
}

// he and authors are ways to draw weights; anything else is a file that has them.
Text initialisation(Config& c) {
  return {[&c]() -> std::string {
            if (!c.weights.empty()) return c.weights;
            return c.network.init == Initialisation::kAuthors ? "authors" : "he";
          },
          [&c](const std::string& text) {
            c.network.init = text == "authors" ? Initialisation::kAuthors : Initialisation::kHe;
            c.weights = text == "he" || text == "authors" ? "" : text;
          }};
}

void check_format(int64_t format, const std::string& path) {
  if (format == kRunFormat) return;
  throw Error(path, fmt::format("is of format {}, this poem knows {}", format, kRunFormat),
              "use the poem that wrote it");
}

using Fail = std::function<void(const std::string& what, const std::string& remedy)>;

void check_two_stages(const Config& c, const Fail& fail) {
  constexpr int64_t kSmallest = 8;
  const std::string given = fmt::format("mining.candidates is {:g}", c.mining.candidates);
  if (c.mining.miner == "none" || !takes_candidates(*make_miner(c.mining.miner))) {
    fail(given + fmt::format(", but mining.miner {} does not rank each outlier by itself", c.mining.miner),
         "set mining.candidates: 1, or mining.miner: thompson, mean, greedy or logit");
  }
  // The first stage looks at images of half the side.
  for (const auto& [name, key] : {std::pair{"mlp", "network.name"}, {"ccu", "objective.name"}}) {
    if (c.network.name == name || c.objective.name == name)
      fail(given + fmt::format(", but {} {} takes images of one size only", key, name),
           fmt::format("set mining.candidates: 1, or another {}", key));
  }
  if (c.data.size < kSmallest) {
    fail(given + fmt::format(", but images of {0}×{0} pixels cannot be halved", c.data.size),
         fmt::format("set mining.candidates: 1, or data.size to {} or more", kSmallest));
  }
}

void check_mining(const Config& c, const Fail& fail) {
  if (c.mining.miner != "none" && c.data.outliers.empty()) {
    fail("data.outliers is missing", "name the outliers, or set mining.miner: none");
  }
  if (c.mining.miner == "none" && make_objective(c.objective)->needs_outliers()) {
    fail(fmt::format("objective.name {} trains with outliers, but mining.miner is none", c.objective.name),
         "set mining.miner: random or another miner; to train without outliers, set objective.name: "
         "cross_entropy and score: energy");
  }
  if (c.mining.miner != "none" && !make_objective(c.objective)->uses_outliers()) {
    fail(fmt::format("objective.name {} ignores outliers, so mining.miner {} has no effect", c.objective.name,
                     c.mining.miner),
         "set mining.miner: none, or another objective");
  }
  if (c.mining.miner != "none" && make_miner(c.mining.miner)->uses_score() &&
      needs(c.score, kFitted | kNetwork)) {
    fail(fmt::format(
             "mining.miner {} ranks outliers by the score, and {} needs more than the network's outputs",
             c.mining.miner, c.score),
         "set score: energy or msp, or reject or reject_energy with objective.name outlier_class");
  }
  if (c.mining.miner == "random" && (c.mining.skip > 0 || c.mining.random > 0))
    fail("mining.skip and mining.random have no effect, because mining.miner is random", "leave them out");
  if (c.mining.miner != "none" && c.mining.random == 1)
    fail(fmt::format("mining.random is 1, so nothing is mined by mining.miner {}", c.mining.miner),
         "lower it, or set mining.miner: random");
  if (c.mining.candidates < 1) check_two_stages(c, fail);
  if (c.outliers.filters.empty()) fail("outliers.filters is empty", "name at least one: area is the default");
  if (c.mining.miner == "logit" && c.objective.name != "outlier_class") {
    fail("mining.miner logit needs an output for outliers", "set objective.name: outlier_class");
  }
}

void check_training(const TrainSettings& train, const std::string& weights, const Fail& fail) {
  for (const int64_t epochs : {train.epochs, train.pretrain}) {
    if (epochs > 0 && train.warmup >= epochs) {
      fail(fmt::format("train.warmup is {}, a stage has {} epochs", train.warmup, epochs),
           "warm up in fewer epochs than are trained");
    }
  }
  if (train.freeze == Freeze::kBackbone && weights.empty()) {
    fail("train.freeze is backbone, but the backbone's weights would be random",
         "name a file of weights as network.init");
  }
  if (train.freeze == Freeze::kBackbone && train.backbone_rate != 1) {
    fail("train.backbone_rate has no effect, because train.freeze is backbone", "set one of them");
  }
  for (size_t i = 1; i < train.milestones.size(); ++i) {
    if (train.milestones[i] <= train.milestones[i - 1]) fail("train.milestones do not ascend", "sort them");
  }
}

std::vector<std::string> texts_of(const Key& key) {
  if (const auto* text = std::get_if<std::string*>(&key.value)) return {**text};
  if (const auto* texts = std::get_if<std::vector<std::string>*>(&key.value)) return **texts;
  if (const auto* texts = std::get_if<OneOrMore>(&key.value)) return *texts->texts;
  if (const auto* text = std::get_if<Text>(&key.value)) return {text->get()};
  return {};
}

bool is_utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json_text(json(text))) == text;
}

// Ranks and checkpoints have the config as JSON, which is UTF-8; all but data.folder, which differs between
// machines.
void check_utf8(const std::vector<Key>& keys) {
  for (const Key& key : keys) {
    if (key.name == "data.folder") continue;
    for (const std::string& text : texts_of(key)) {
      if (!is_utf8(text))
        throw Error(key.name, fmt::format("'{}' is not UTF-8", text),
                    "rename the file, or make a link with another name");
    }
  }
}

void check(const Config& c, const std::string& path) {
  check_format(c.format, path);
  const auto fail = [&](const std::string& what, const std::string& remedy) {
    throw Error(path, what, remedy);
  };
  if (c.data.train.empty()) fail("data.train is missing", "name the labelled training images");
  check_mining(c, fail);
  if (!c.data.test.empty() && c.data.ood.empty()) {
    fail("data.ood is missing, but data.test is there", "name OOD test sets, or leave data.test out");
  }
  if (c.network.mean.size() != c.network.std.size()) {
    fail("network.mean and network.std differ in length", "give one number per channel in both");
  }
  check_training(c.train, c.weights, fail);
}

std::vector<Key> run_keys(Config& c) {
  return {
      {"format", &c.format, "version of this file and of the run folder", at_least(1)},
      {"seed", &c.seed, "decides every random draw of the run", at_least(0)},
      {"score", &c.score, "the score that ranks test inputs; higher is ID", one_of(score_names())},
  };
}

std::vector<Key> data_keys(Config& c) {
  return {
      {"data.folder", &c.data.folder,
       "folder from which relative sources start; empty: the folder in which poem runs (the run records it)"},
      {"data.train", &c.data.train, "labelled ID training images (docs/data.md lists the sources)"},
      {"data.test", &c.data.test, "labelled ID test images; empty: no evaluation after training"},
      {"data.outliers", OneOrMore{&c.data.outliers},
       "the outliers that are mined, from one source or a list of sources; SOURCE#share=X gives a "
       "source of a list the share X of each epoch's pool, the others divide the rest by their sizes; "
       "may be empty with mining.miner none"},
      {"data.ood", &c.data.ood, "OOD test sets as NAME=SOURCE"},
      {"data.size", &c.data.size, "side of the network's square input in pixels", between(1, 1024)},
      {"data.validation", &c.data.validation,
       "share of the ID training images that is held out of training and sets the detector's threshold; "
       "auto: 0.02, or as much more as gives 400 images, but at most 0.2",
       between(0, 0.5)},
      {"data.skip_bad", &c.data.skip_bad, "leave out images that cannot be decoded, with a warning"},
  };
}

std::vector<Key> augment_keys(Config& c) {
  return {
      {"augment.padding", &c.augment.padding, "ID images: zeros added on each side before the random crop",
       between(0, 256)},
      {"augment.flip", &c.augment.flip, "ID images: mirror half of them, chosen at random"},
      {"augment.brightness", &c.augment.brightness,
       "ID images: strength of random changes of brightness; 0: none (the authors' code: 0.2)",
       between(0, 1)},
      {"augment.contrast", &c.augment.contrast,
       "ID images: strength of random changes of contrast; 0: none (the authors' code: 0.2)", between(0, 1)},
      {"augment.saturation", &c.augment.saturation,
       "ID images: strength of random changes of saturation; 0: none (the authors' code: 0.2)",
       between(0, 1)},
      {"augment.hue", &c.augment.hue,
       "ID images: strength of random changes of hue, in turns; 0: none (the authors' code: 0.1)",
       between(0, 0.5)},
      {"augment.jitter_share", &c.augment.jitter_share,
       "ID images: share of them to which these colour changes apply", between(0, 1)},
      {"augment.grey", &c.augment.grey, "ID images: share of them that becomes grey", between(0, 1)},
      {"augment.min_area", &c.augment.min_area,
       "ID images: below 1, random resized crops of at least this share of the image; padding is then unused",
       between(0.01, 1)},
  };
}

std::vector<Key> outliers_keys(Config& c) {
  return {
      {"outliers.fit", choice(&c.outliers.fit),
       "crop: cut a random piece of data.size out of the original; resize: bring the shorter side to "
       "data.size first",
       one_of({"crop", "resize"})},
      {"outliers.padding", &c.outliers.padding, "outliers: zeros added on each side before the random crop",
       between(0, 256)},
      {"outliers.flip", &c.outliers.flip, "outliers: mirror half of them, chosen at random"},
      {"outliers.filters", &c.outliers.filters,
       "outliers.fit resize: how image files of twice data.size or more, and larger images of a packed "
       "file, become smaller; every crop draws one of these (docs/data.md). gaussian also blurs all "
       "other images",
       one_of(filter_names())},
      {"outliers.min_area", &c.outliers.min_area,
       "outliers: below 1, random resized crops of at least this share of the image; padding is then unused",
       between(0.01, 1)},
      {"outliers.jitter", &c.outliers.jitter,
       "outliers: strength of random changes of brightness, contrast and saturation, and of hue at a quarter "
       "of it, in turns; 0: none",
       between(0, 1)},
  };
}

std::vector<Key> network_keys(Config& c) {
  return {
      {"network.name", &c.network.name,
       "the backbone; resnet18_224 and resnet50 are torchvision's, for images of about 224×224 pixels",
       one_of(network_names())},
      {"network.depth", &c.network.depth, "densenet and wideresnet: number of layers, 6n+4",
       between(4, 1000)},
      {"network.growth", &c.network.growth, "densenet: channels that each layer adds", between(1, 512)},
      {"network.width", &c.network.width, "wideresnet: widening factor", between(1, 64)},
      {"network.hidden", &c.network.hidden, "mlp: units of each hidden layer", between(1, 65536)},
      {"network.init", initialisation(c),
       "initial weights. he: N(0, 2/(k² out)); authors: N(0, 2/layers per block), densenet only; or a FILE "
       "of weights (docs/quickstart.md): .safetensors, .pth from PyTorch, or a run folder. A relative path "
       "starts from data.folder"},
      {"network.mean", &c.network.mean, "subtracted from the pixels (0 … 255), one number per channel"},
      {"network.std", &c.network.std, "the pixels are then divided by this, one number per channel",
       between(1e-6, 1e6)},
  };
}

std::vector<Key> objective_keys(Config& c) {
  return {
      {"objective.name", &c.objective.name, "the loss that training minimises", one_of(objective_names())},
      {"objective.beta", &c.objective.beta,
       "weight of the outliers' term; auto: the published weight (energy 0.1, oe 0.5, outlier_class 1, sofl "
       "5; the others have none)",
       at_least(0)},
      {"objective.m_in", &c.objective.m_in, "energy: margin of ID energies (the paper's text swaps the two)"},
      {"objective.m_out", &c.objective.m_out, "energy: margin of outlier energies"},
      {"objective.reject_classes", &c.objective.reject_classes,
       "sofl: number of outputs in addition to the classes (its authors: 5 for CIFAR-10, 10 for CIFAR-100)",
       between(1, 10000)},
      {"objective.temperature", &c.objective.temperature, "supcon: temperature τ", between(1e-3, 1e3)},
      {"objective.components", &c.objective.components,
       "ccu: number of Gaussians in each of the two densities", between(1, 10000)},
      {"objective.density_learning_rate", &c.objective.density_rate,
       "ccu: learning rate of the two densities", between(0, 1)},
  };
}

std::vector<Key> mining_keys(Config& c) {
  return {
      {"mining.miner", &c.mining.miner, "how outliers are chosen", one_of(with_none(miner_names()))},
      {"mining.pool", &c.mining.pool, "S, the number of outliers scored per epoch", at_least(1)},
      {"mining.select", &c.mining.select,
       "N, the number of outliers mined per epoch; 0: as many as an epoch trains on", at_least(0)},
      {"mining.skip", &c.mining.skip,
       "share q of the pool that is skipped: the best-ranked outliers; those after them are mined",
       between(0, 1)},
      {"mining.random", &c.mining.random,
       "share of the mined outliers that is taken at random from the rest of the pool", between(0, 1)},
      {"mining.candidates", &c.mining.candidates,
       "share of the pool that a first stage picks, with the network on images of half the side; only these "
       "candidates are scored as they are, and the log says how many of the best are among them "
       "(docs/scale.md); 1: one stage, all of the pool is scored",
       between(0, 1)},
      {"mining.until", &c.mining.until,
       "epoch after which mining stops and the last mined set stays; 0: mining never stops", at_least(0)},
      {"mining.first", choice(&c.mining.first), "how the first epoch chooses its outliers",
       one_of({"miner", "random"})},
      {"mining.max_per_image", &c.mining.max_per_image,
       "how many crops of one image may be mined; 0: any number", at_least(0)},
  };
}

std::vector<Key> posterior_keys(Config& c) {
  return {
      {"posterior.prior_variance", &c.posterior.prior_variance, "prior covariance: Σ = this · I",
       between(1e-12, 1e12)},
      {"posterior.noise_variance", &c.posterior.noise_variance,
       "variance σ² of the noise on the target logits", between(1e-12, 1e12)},
      {"posterior.scale", &c.posterior.scale,
       "factor on the covariance: 1 as in the paper, 20 in the authors' code", between(1e-12, 1e12)},
      {"posterior.target", &c.posterior.target, "target logit: + for outliers, − for ID", between(1e-6, 100)},
      {"posterior.noise", choice(&c.posterior.target_noise),
       "noise on the targets; iid: one draw per row; single: one draw for the whole run",
       one_of({"iid", "single"})},
  };
}

std::vector<Key> queue_keys(Config& c) {
  return {
      {"queue.epochs", &c.queue.epochs, "number of past epochs whose data the posterior uses",
       between(1, 1000)},
      {"queue.features", choice(&c.queue.features),
       "stored: features from the epoch that trained on them; fresh: computed again in each epoch",
       one_of({"stored", "fresh"})},
  };
}

std::vector<Key> threshold_keys(Config& c) {
  return {
      {"threshold.tpr", &c.tpr, "share of the held-out ID images that the detector's threshold keeps",
       between(0.01, 1)},
  };
}

std::vector<Key> train_keys(Config& c) {
  return {
      {"train.epochs", &c.train.epochs, "passes over the ID images", between(1, 1000000)},
      {"train.pretrain", &c.train.pretrain,
       "epochs on ID images alone before train.epochs, with their own schedule (sofl's first stage)",
       between(0, 1000000)},
      {"train.warmup", &c.train.warmup, "epochs in which the learning rate rises to train.learning_rate",
       between(0, 1000000)},
      {"train.evaluate_every", &c.train.evaluate_every,
       "epochs between evaluations on the test sets; 0: only after the last epoch", at_least(0)},
      {"train.batch", &c.train.batch, "ID images per step", between(1, 1000000)},
      {"train.outlier_batch", &c.train.outlier_batch, "outliers per step", between(1, 1000000)},
      {"train.learning_rate", &c.train.learning_rate, "learning rate at the start", between(0, 1000)},
      {"train.backbone_rate", &c.train.backbone_rate,
       "factor on the learning rate of all but the last layer, such as 0.1 with network.init FILE; to keep "
       "them as they are set train.freeze",
       between(1e-6, 1)},
      {"train.freeze", choice(&c.train.freeze),
       "backbone: only the last layer is trained; all other weights and BatchNorm's statistics stay as "
       "network.init FILE has them",
       one_of({"none", "backbone"})},
      {"train.momentum", &c.train.momentum, "Nesterov momentum", between(0, 1)},
      {"train.weight_decay", &c.train.weight_decay, "weight of the L2 penalty", between(0, 1)},
      {"train.average", &c.train.average,
       "decay of a moving average of the weights, such as 0.999, which the detector and every evaluation get "
       "(docs/run-folder.md); 0: no average",
       between(0, 0.999999)},
      {"train.batch_norm", choice(&c.train.batch_norm),
       "with several processes: global normalises a batch with the statistics of all its images, as one "
       "process does; local with those of each process's own images, which needs fewer messages",
       one_of({"global", "local"})},
      {"train.precision", choice(&c.train.precision),
       "bf16: the network computes in bfloat16 (GPU only; weights, statistics, features and the detector "
       "stay float32); auto: bf16 if the GPU supports it",
       one_of({"auto", "float32", "bf16"})},
      {"train.deterministic", &c.train.deterministic,
       "on a GPU: add sums in a fixed order, so that a run can be repeated bit for bit; slower"},
      {"train.images", choice(&c.train.images),
       "on a GPU: auto keeps the images of a source there if they need at most half of its free memory; "
       "stream sends the images of each batch, as always for drawn outliers",
       one_of({"auto", "stream"})},
      {"train.schedule", choice(&c.train.schedule), "how the learning rate falls",
       one_of({"step", "cosine"})},
      {"train.milestones", &c.train.milestones, "step: shares of the training at which the rate drops",
       between(0, 1)},
      {"train.drop", &c.train.drop, "step: factor of each drop", between(0, 1)},
  };
}

}  // namespace

std::vector<Key> keys(Config& c) {
  std::vector<Key> all;
  for (const auto section : {run_keys, data_keys, augment_keys, outliers_keys, network_keys, objective_keys,
                             mining_keys, posterior_keys, queue_keys, threshold_keys, train_keys}) {
    std::vector<Key> some = section(c);
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

Config parse_config(const std::string& path) {
  Config config;
  const auto table = keys(config);
  read_yaml_key(table.front(), path);  // first of all: a file of another version may well have other keys
  check_format(config.format, path);
  read_yaml(table, path);
  return config;
}

Config config_from(const std::string& text, const std::string& where) {
  Config config;
  read_yaml_text(keys(config), text, where);
  return config;
}

Config read_config(const std::string& path, const std::vector<std::string>& assignments,
                   const std::string& given_to) {
  Config config = parse_config(path);
  const auto table = keys(config);
  for (const auto& assignment : assignments) set_key(table, assignment, given_to);
  check_utf8(table);
  config.objective = resolved(config.objective);
  check(config, path);
  return config;
}

Config anchored(Config config) {
  const std::filesystem::path start = std::filesystem::current_path();
  config.data.folder = (config.data.folder.empty() ? start : start / config.data.folder).string();
  return config;
}

std::string to_yaml(const Config& config) {
  Config copy = config;
  copy.objective = resolved(copy.objective);
  return to_yaml(keys(copy), false);
}

}  // namespace poem

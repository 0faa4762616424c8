// All settings of a training. docs/config.md lists every key with its range and meaning.
//
//   Config config = read_config("my.yaml", {"train.epochs=10", "seed=3"});
//   config.mining.pool;        // mining.pool of the file
//   write(to_yaml(config));    // every key with its value
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "poem/mining.h"
#include "poem/network.h"
#include "poem/objective.h"
#include "poem/posterior.h"

namespace poem {

struct DataSettings {
  std::string folder;       // where relative sources start; empty: the current folder
  std::string train, test;  // sources as poem/read.h takes them; test may be empty
  // Sources, each with an optional "#share=X": its share of each epoch's pool (docs/data.md). May be empty.
  std::vector<std::string> outliers;
  std::vector<std::string> ood;  // NAME=SOURCE
  int64_t size = 32;
  std::optional<double> validation;  // share of the ID images; empty: by their number (docs/config.md)
  bool skip_bad = false;
};

struct AugmentSettings {  // of ID training images
  int64_t padding = 4;
  bool flip = true;
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
  double jitter_share = 1;  // of images that are jittered
  double grey = 0;          // share of images that lose their colour
  double min_area = 1;      // below 1: random resized crops of at least this share of the image
};

// How outliers are brought to the size of the network's input: a random piece of the original, or the whole
// image resized first.
enum class OutlierFit { kCrop, kResize };

struct OutlierSettings {
  OutlierFit fit = OutlierFit::kCrop;
  int64_t padding = 4;
  bool flip = true;
  std::vector<std::string> filters = {"area"};  // how images are resized: each crop draws one
  double min_area = 1;                          // below 1: random resized crops, as in AugmentSettings
  double jitter = 0;  // of brightness, contrast and saturation; hue gets a quarter of it
};

// Whether the queue keeps features as they were when their epoch ended, or computes them again every epoch.
enum class QueueFeatures { kStored, kFresh };

struct QueueSettings {
  int64_t epochs = 4;
  QueueFeatures features = QueueFeatures::kStored;
};

enum class Precision { kAuto, kFloat32, kBf16 };  // kAuto: bfloat16 on a GPU that supports it
enum class Schedule { kStep, kCosine };
enum class Freeze { kNothing, kBackbone };       // kBackbone: only the last layer is trained
enum class BatchStatistics { kGlobal, kLocal };  // with several processes

struct TrainSettings {
  int64_t epochs = 100;
  int64_t pretrain = 0;        // epochs on ID images alone, before `epochs`; with their own schedule
  int64_t warmup = 0;          // epochs in which the rate rises to the learning rate
  int64_t evaluate_every = 0;  // epochs between evaluations on the test sets; 0: after the last only
  int64_t batch = 64, outlier_batch = 64;
  double learning_rate = 0.1, momentum = 0.9, weight_decay = 1e-4;
  double backbone_rate = 1;  // factor on the learning rate of all but the last layer
  Freeze freeze = Freeze::kNothing;
  double average = 0;  // decay of the weights' average, which the detector gets; 0: none
  BatchStatistics batch_norm = BatchStatistics::kGlobal;
  Precision precision = Precision::kAuto;
  bool deterministic = false;             // on a GPU: the same bits every time
  ImagePlace images = ImagePlace::kAuto;  // on a GPU
  Schedule schedule = Schedule::kStep;
  std::vector<double> milestones = {0.5, 0.75,
                                    0.9};  // step: shares of the training after which the rate drops
  double drop = 0.1;
};

// The version of a run folder's layout (docs/run-folder.md).
constexpr int64_t kRunFormat = 1;

struct Config {
  int64_t format = kRunFormat;
  int64_t seed = 0;
  DataSettings data;
  AugmentSettings augment;
  OutlierSettings outliers;
  NetworkSpec network;
  std::string weights;  // network.init: the file that training starts from; empty: as network.init draws them
  ObjectiveSettings objective;
  MiningSettings mining;
  PosteriorSettings posterior;
  QueueSettings queue;
  TrainSettings train;
  std::string score = "energy";
  double tpr = 0.95;  // share of the held-out ID images that the detector's threshold keeps
};

// The defaults, and over them what a YAML file says. Does not check whether keys are missing or fit together.
Config parse_config(const std::string& path);

// The same for the text of such a file; `where` names it in messages.
Config config_from(const std::string& text, const std::string& where);

// Does in this order: parse_config(); the assignments ("KEY=VALUE"); objective.beta, if it is empty, becomes
// the published weight; checks of keys that depend on each other. `given_to` names the assignments in
// messages.
Config read_config(const std::string& path, const std::vector<std::string>& assignments,
                   const std::string& given_to = "set");

// Every key with its value. As in read_config(), an empty objective.beta becomes the published weight.
std::string to_yaml(const Config& config);

// The config as a run keeps it: data.folder is absolute, so that the run can be resumed from any folder.
Config anchored(Config config);

}  // namespace poem

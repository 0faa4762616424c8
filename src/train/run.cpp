#include "poem/training.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "core/file.h"
#include "core/interrupts.h"
#include "core/lock.h"
#include "core/npy.h"
#include "core/progress.h"
#include "core/text.h"
#include "detect/results_output.h"
#include "detect/scores_csv.h"
#include "poem/error.h"
#include "poem/evaluate.h"
#include "poem/fit.h"
#include "poem/metrics.h"
#include "train/checkpoint.h"
#include "train/epoch_report.h"
#include "train/gallery.h"
#include "train/gpu_memory.h"
#include "train/memory.h"
#include "train/optimiser.h"
#include "train/run_checks.h"
#include "train/tensorboard.h"
#include "train/trainer.h"

namespace poem {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr const char* kMark = "config.yaml";  // a folder with it is a run

struct Folder {
  explicit Folder(const std::string& path)
      : root(path),
        config(path + "/" + kMark),
        metrics(path + "/metrics.jsonl"),
        checkpoint(path + "/checkpoint/state.safetensors"),
        detector(path + "/detector.safetensors"),
        results(path + "/results.json"),
        table(path + "/results.csv"),
        scores(path + "/scores"),
        verdicts(path + "/scores.csv"),
        gallery(path + "/gallery") {}
  std::string root, config, metrics, checkpoint, detector, results, table, scores, verdicts, gallery;
};

// metrics.jsonl: a line an epoch; and the same for TensorBoard.
class Metrics {
 public:
  // Goes on with the lines for epochs that the checkpoint holds; a kill may have left later or half ones.
  Metrics(const Folder& folder, int64_t epochs) : folder_(folder) {
    if (fs::exists(folder.metrics)) read(epochs);
    write_events(folder.root,
                 text());  // TensorBoard sees a run from its beginning, and no epoch that is to come again
  }

  void add(const ordered_json& line) {
    lines_.push_back(line);
    write();
  }

  bool has_results() const { return lines_.empty() || lines_.back().contains("results"); }

  void set_results(const ordered_json& results) {
    lines_.back()["results"] = results;
    write();
  }

 private:
  void read(int64_t epochs) {
    std::istringstream text(read_file(folder_.metrics));
    for (std::string line; std::getline(text, line);) {
      const ordered_json entry = ordered_json::parse(line, nullptr, false);
      if (!entry.is_object() || !entry.contains("epoch") || !entry["epoch"].is_number_integer()) break;
      if (entry["epoch"].get<int64_t>() > epochs) break;
      lines_.push_back(entry);
    }
  }

  std::string text() const {
    std::string text;
    for (const ordered_json& line : lines_) {
      text += line.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
    }
    return text;
  }

  void write() const {
    const std::string lines = text();
    write_file(folder_.metrics, lines);
    write_events(folder_.root, lines);
  }

  const Folder& folder_;
  std::vector<ordered_json> lines_;
};

Detector bare_detector(const Config& config, const TrainingData& data, const Trainer& trainer) {
  return {trainer.network(), nullptr, std::nullopt, data.id.class_names, config.data.size};
}

IdImages split(const TrainingData& data) {
  return {subset(data.id, data.train_rows), subset(data.id, data.validation_rows)};
}

// ID images held out of training give the threshold, which keeps as many of them as threshold.tpr says.
Detector make_detector(const Config& config, const TrainingData& data, const Trainer& trainer) {
  Detector detector = bare_detector(config, data, trainer);
  std::optional<IdImages> id;
  if (needs(config.score, kImages)) id = split(data);
  detector.score = fit_scores({config.score}, detector, id).front();
  if (!data.validation_rows.empty()) {
    const ImageSet held_out = subset(data.id, data.validation_rows);
    detector.threshold = threshold_at_tpr(to_doubles(detector.scores(held_out)), config.tpr);
    detector.calibration = Calibration{config.tpr, held_out.size()};
  }
  return detector;
}

// Before the training: a threshold from few images is worth little.
void tell_of_threshold(const Config& config, const TrainingData& data) {
  constexpr int64_t kFew = 200;
  const auto count = static_cast<int64_t>(data.validation_rows.size());
  if (count >= kFew) return;
  const auto& share = config.data.validation;
  const std::string key = fmt::format("data.validation {}", share ? fmt::to_string(*share) : "auto");
  if (count == 0) {
    spdlog::warn("{} holds out no image: the detector will have no threshold", key);
    return;
  }
  spdlog::warn("{} holds out few images: the threshold {} (raise data.validation, or add ID images)", key,
               to_text(Calibration{config.tpr, count}));
}

// The results, and how far the detector's threshold can be trusted.
std::string results_text(const Results& results, const Detector& detector) {
  ordered_json json = to_full_json(results);
  json["calibration"] = nullptr;
  if (detector.calibration) {
    const KeptShare kept = kept_share(*detector.calibration);
    json["calibration"] = {{"tpr", detector.calibration->tpr},
                           {"images", detector.calibration->images},
                           {"kept_low", kept.low},
                           {"kept_high", kept.high}};
  }
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

// The detector comes last: a run that has it is finished.
std::optional<Results> finish(const Folder& folder, const Detector& detector,
                              const std::optional<TestData>& test) {
  if (detector.threshold)
    spdlog::info("threshold {:.6g} {}", *detector.threshold, to_text(*detector.calibration));
  if (!test) {
    detector.save(folder.detector);
    return std::nullopt;
  }
  const auto sets = score_sets(detector, {detector.score}, test->id, test->ood);
  const Results results = summarise(sets, detector, {detector.score}, test->id).front();
  if (!results.problem.empty()) spdlog::warn("score '{}': {}", detector.score->name(), results.problem);
  make_output_folder(folder.scores);
  for (const ScoredSet& set : sets)
    write_npy(folder.scores + "/" + set.name + ".npy", at::tensor(set.scores.front()));
  write_file(folder.verdicts, scores_csv(sets, detector, {detector.score}, test->id, test->ood));
  write_test_sheets(folder.gallery, detector, *test, sets);
  write_file(folder.table, to_csv(results));
  write_file(folder.results, results_text(results, detector));
  detector.save(folder.detector);
  return results;
}

// Everything a run reads. Test sets too: a bad one is an error before the training, not after it.
struct Inputs {
  explicit Inputs(const Config& config) : training(load_training_data(config)) {
    if (config.data.test.empty()) return;
    test = load_test_data(config.data.test, config.data.ood, read_options(config.data));
    check_fits(training.id.channels(), training.id.class_names, test->id, test->ood);
  }
  TrainingData training;
  std::optional<TestData> test;
};

// What the number of images decides. (A GPU was asked before.)
void check_room(const Config& config, const Inputs& inputs, at::Device device) {
  if (!device.is_cpu()) return;
  const ImageSet& id = inputs.training.id;
  const NetworkSpec spec =
      network_spec(config, *make_objective(config.objective), id.channels(), id.height() * id.width(),
                   static_cast<int64_t>(id.class_names.size()));
  check_step_memory(config, spec, static_cast<int64_t>(inputs.training.train_rows.size()));
}

// A run that goes on is not finished: what it was then must not pass for what it will be.
void remove_results(const Folder& folder) {
  for (const std::string& path :
       {folder.detector, folder.results, folder.table, folder.scores, folder.verdicts})
    fs::remove_all(path);
  remove_test_sheets(folder.gallery);
}

RunOutcome train(Trainer& trainer, const Inputs& inputs, const Folder& folder, at::Device device) {
  const Config& config = trainer.config();
  const TrainingData& data = inputs.training;
  make_output_folder(fs::path(folder.checkpoint).parent_path().string());
  tell_of_threshold(config, data);
  Metrics metrics(folder, trainer.epoch());
  std::optional<Job> job(std::in_place, "epoch", trainer.epoch(), trainer.epochs());  // of the progress view
  const auto report = [&](const EpochReport& figures) {
    if (figures.mining) write_mined_sheet(folder.gallery, figures.epoch, trainer.mined(), data);
    metrics.add(to_json(figures));
    spdlog::info(to_text(figures, trainer.epochs()));
  };
  // The test sets come after the checkpoint: whatever ends the evaluation, the epoch is kept.
  const auto evaluate_epoch = [&] {
    const int64_t every = config.train.evaluate_every, epoch = trainer.epoch() - config.train.pretrain;
    if (!inputs.test || every == 0 || epoch <= 0 || epoch % every != 0 || metrics.has_results()) return;
    try {
      const Detector detector = make_detector(config, data, trainer);
      const Results results = evaluate(detector, config.score, inputs.test->id, inputs.test->ood);
      metrics.set_results(to_json(results));
      job->set_figures(fmt::format("FPR95 {:.2f} %", 100 * results.mean.fpr95));
    } catch (const UnfitScore& e) {  // the network may yet become one that it can be fitted to
      spdlog::warn("epoch {} is not evaluated: {}", epoch, e.what());
    }
  };
  const auto checkpoint = [&] {
    if (fs::exists(folder.detector)) remove_results(folder);
    write_checkpoint(folder.checkpoint, trainer, data, device);
    evaluate_epoch();
    job->set_done(trainer.epoch());
  };
  try {
    evaluate_epoch();  // of a run that was stopped while it did
    if (!trainer.run(report, checkpoint)) return {false, std::nullopt};
    job.reset();
    catch_interrupts();  // Ctrl-C during the last batch had nothing left to stop; a later one ends what
                         // follows
    return {true, finish(folder, make_detector(config, data, trainer), inputs.test)};
  } catch (const Interrupted&) {  // while outliers were scored or a test set: the checkpoint has all that was
                                  // trained
    return {false, std::nullopt};
  }
}

// The trainer is then where the run was stopped.
void restore(Trainer& trainer, const Inputs& inputs, const Folder& folder, at::Device device) {
  if (!fs::exists(folder.checkpoint)) return;
  read_checkpoint(folder.checkpoint, trainer, inputs.training, device);
  if (trainer.begun() > trainer.epochs()) {
    throw Error("train.epochs",
                fmt::format("{} are fewer than the {} that the run has begun", trainer.config().train.epochs,
                            trainer.begun() - trainer.config().train.pretrain),
                "give at least as many");
  }
  spdlog::info("resuming {} after {} of {} epochs", folder.root, trainer.epoch(), trainer.epochs());
}

// With another number of epochs the schedule is another one too.
void tell_of_rate(const Config& before, const Trainer& trainer) {
  const Config& now = trainer.config();
  const int64_t done = trainer.epoch() - now.train.pretrain;
  if (now.train.epochs == before.train.epochs || done <= 0) return;
  const auto rate = [&](const TrainSettings& train) {
    return learning_rate(train, train.epochs, std::min(1.0, static_cast<double>(done) / train.epochs));
  };
  spdlog::info(
      "train.epochs is {} instead of {}: the learning rate goes on at {:.3g} instead of {:.3g}, since the "
      "schedule is one of shares of the whole training",
      now.train.epochs, before.train.epochs, rate(now.train), rate(before.train));
}

// The keys of these assignments may change while a run is stopped.
void check_changeable(const std::vector<std::string>& set, const std::string& run) {
  const std::vector<std::string>& keys = changeable_keys();
  for (const std::string& assignment : set) {
    const std::string key = assignment.substr(0, assignment.find('='));
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) continue;
    throw Error("set " + assignment, "cannot change while a run goes on: what it has trained depends on it",
                fmt::format("a resumed run takes only {}; start another run from {} for the rest",
                            listed(keys), run + "/" + kMark));
  }
}

}  // namespace

// Only a run may be replaced, and only if nothing else lies in its folder.
void check_run_folder(const std::string& path, bool force) {
  check_output_folder(path, force, kMark);
  if (!fs::exists(path)) return;
  const std::set<std::string> own = {kMark,          "metrics.jsonl", "checkpoint", "detector.safetensors",
                                     "results.json", "results.csv",   "scores",     "scores.csv",
                                     "gallery",      "report.html"};
  for (const auto& entry : fs::directory_iterator(path)) {
    std::string name = entry.path().filename().string();
    if (entry.path().extension() == ".tmp") name = entry.path().stem().string();  // a kill left it
    if (own.count(name) > 0 || name.rfind("events.out.tfevents.", 0) == 0) continue;
    throw Error(path, fmt::format("contains {}, which poem did not create, so it is never replaced", name),
                "move that away, or choose another folder");
  }
}

namespace {

// Where data has moved since the training, the run's config is what to change.
void find_sources(const Config& config, const Folder& folder) {
  try {
    check_sources(config);
  } catch (const Error& e) {
    throw e.within(folder.config);
  }
}

}  // namespace

void check_startable(const Config& config, at::Device device) {
  check_sources(config);
  // A network for two classes, built for nothing but its complaints.
  const NetworkSpec spec = likely_spec(config, *make_objective(config.objective));
  const Detector bare{
      make_network(spec, Weights::none()), nullptr, std::nullopt, {"0", "1"}, config.data.size};
  unsigned found = available(bare, std::nullopt) | kTraining;
  if (config.data.validation.value_or(1) > 0) found |= kHeldOut;
  choose_scores({config.score}, found);
  computes_in_bf16(config.train.precision, device);
  check_memory(config, *bare.network);
  check_gpu_memory(config, device);
}

RunOutcome start_run(const Config& given, const std::string& path, bool force, at::Device device) {
  const Folder folder(path);
  const Config config = anchored(given);
  check_run_folder(path, force);
  const bool existed = fs::exists(path);
  std::optional<Lock> lock;
  if (existed) lock.emplace(path);
  check_startable(config, device);
  const Inputs inputs(config);
  check_room(config, inputs, device);
  Trainer trainer(config, inputs.training, device);
  check_score(config, inputs.training, trainer);  // before the training, not after it
  make_output_folder(path);
  if (!lock) lock.emplace(path);
  check_run_folder(path, force);  // another process may have filled it meanwhile
  empty_folder(path);
  try {
    write_file(folder.config, to_yaml(config));
    return train(trainer, inputs, folder, device);
  } catch (...) {
    if (!fs::exists(folder.checkpoint)) {  // nothing worth resuming
      empty_folder(path);
      if (!existed) fs::remove(path);
    }
    throw;
  }
}

void rehearse_run(const Config& given, at::Device device) {
  const Config config = anchored(given);
  check_startable(config, device);
  const Inputs inputs(config);
  check_room(config, inputs, device);
  const Trainer trainer(config, inputs.training, device);
  check_score(config, inputs.training, trainer);
}

RunOutcome resume_run(const std::string& path, at::Device device, const std::vector<std::string>& set) {
  const Folder folder(path);
  if (!fs::exists(folder.config)) {
    throw Error(path, "is not a run: it has no config.yaml", "name the folder of a training");
  }
  check_changeable(set, path);
  const Config before = read_config(folder.config, {}), config = anchored(read_config(folder.config, set));
  const Lock lock(path);
  find_sources(config, folder);
  check_gpu_memory(config, device);
  const Inputs inputs(config);
  check_room(config, inputs, device);
  Trainer trainer(config, inputs.training, device);
  restore(trainer, inputs, folder, device);
  if (!set.empty()) {
    tell_of_rate(before, trainer);
    write_file(folder.config, to_yaml(config));
  }
  return train(trainer, inputs, folder, device);
}

std::string detector_path(const std::string& run_or_file) {
  if (fs::is_regular_file(run_or_file) && fs::path(run_or_file).extension() == ".yaml") {
    throw Error(run_or_file, "is a config, neither a run nor a detector",
                "name the folder of a training, or its detector.safetensors");
  }
  if (!fs::is_directory(run_or_file)) return run_or_file;
  const Folder folder(run_or_file);
  if (fs::exists(folder.detector)) return folder.detector;
  if (fs::exists(folder.config)) {
    throw Error(run_or_file, "has no detector yet",
                "to finish it, resume the run " + shell_quoted(run_or_file));
  }
  throw Error(run_or_file, "is not a run", "name the folder of a training");
}

void check_score(const Config& config, const TrainingData& data, const Trainer& trainer) {
  const IdImages images{data.id, subset(data.id, data.validation_rows)};
  choose_scores({config.score}, available(bare_detector(config, data, trainer), images));
}

IdImages load_id_images(const std::string& run) {
  const Folder folder(run);
  Config config = read_config(folder.config, {});
  config.mining.miner = "none";  // outliers and test sets are of no use here
  config.data.test.clear();
  config.data.ood.clear();
  find_sources(config, folder);
  return split(load_training_data(config));
}

}  // namespace poem

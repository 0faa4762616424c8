#include "train/run.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "core/file.h"
#include "core/interrupts.h"
#include "core/lock.h"
#include "core/progress.h"
#include "core/text.h"
#include "detect/results_output.h"
#include "poem/error.h"
#include "poem/evaluate.h"
#include "poem/fit.h"
#include "train/agreement.h"
#include "train/checkpoint.h"
#include "train/epoch_report.h"
#include "train/finish.h"
#include "train/gallery.h"
#include "train/gpu_memory.h"
#include "train/leaks.h"
#include "train/memory.h"
#include "train/metrics_log.h"
#include "train/network_setup.h"
#include "train/optimiser.h"
#include "train/run_checks.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

// Everything a run reads. Test sets too: a bad one is an error before the training, not after it.
struct Inputs {
  explicit Inputs(const Config& config) : training(load_training_data(config)) {
    if (config.data.test.empty()) return;
    test = load_test_data(config.data.test, config.data.ood, read_options(config.data));
    check_fits(training.id.channels(), training.id.class_names, *test);
  }
  TrainingData training;
  std::optional<TestData> test;
};

// What the number of images decides. (A GPU was asked before.)
void check_room(const Config& config, const Inputs& inputs, at::Device device,
                const Processes& processes = {}) {
  check_drawing_memory(config, inputs.training.outliers, processes);
  if (!device.is_cpu()) return;
  const NetworkSpec spec = network_spec(config, *make_objective(config.objective), inputs.training.id);
  check_step_memory(config, spec, static_cast<int64_t>(inputs.training.train_rows.size()), processes);
}

Processes processes_of(const Team& team) { return {team.size(), team.local_size()}; }

// What a run writes while it trains, by rank 0 of a team.
class RunWriter {
 public:
  RunWriter(const RunFolder& folder, const Inputs& inputs, const Trainer& trainer, at::Device device)
      : folder_(folder), inputs_(inputs), trainer_(trainer), device_(device) {
    if (trainer.team().first()) metrics_.emplace(folder, trainer.epoch());
  }

  void record(const EpochReport& figures) {
    if (!metrics_) return;
    if (figures.mining) write_mined_sheet(folder_.gallery, figures.epoch, trainer_.mined(), inputs_.training);
    metrics_->add(to_json(figures));
    spdlog::info(to_text(figures, trainer_.epochs()));
  }

  // A finished run that goes on is no longer finished. Its results leave after the new checkpoint is written,
  // so that a full disk costs nothing.
  void save() const {
    if (!metrics_) return;
    write_checkpoint(folder_.checkpoint, trainer_, inputs_.training, device_);
    if (folder_.finished()) folder_.remove_results();
  }

  // The test sets, every train.evaluate_every epochs. They come after the checkpoint: whatever ends the
  // evaluation, the epoch is kept.
  std::optional<Results> evaluate_epoch() {
    const Config& config = trainer_.config();
    const int64_t every = config.train.evaluate_every, epoch = trainer_.epoch() - config.train.pretrain;
    if (!metrics_ || !inputs_.test || every == 0 || epoch <= 0 || epoch % every != 0) return {};
    if (metrics_->has_results()) return {};
    try {
      const Detector detector = make_detector(config, inputs_.training, trainer_);
      const Results results = evaluate(detector, config.score, *inputs_.test);
      metrics_->set_results(to_json(results));
      return results;
    } catch (const UnfitScore& e) {  // it may yet fit what the network becomes
      spdlog::warn("epoch {} is not evaluated: {}", epoch, e.what());
      return {};
    }
  }

 private:
  const RunFolder& folder_;
  const Inputs& inputs_;
  const Trainer& trainer_;
  const at::Device device_;
  std::optional<MetricsLog> metrics_;
};

// Algorithm 2, epoch after epoch. False if a signal stopped it: the checkpoint then has all that was trained.
bool train_epochs(Trainer& trainer, RunWriter& run) {
  std::optional<SaveOnInterrupt> saving;  // once a batch is trained, there is something to save
  const auto stop = [&] {
    if (!saving) saving.emplace();
    return interrupted();
  };
  Job job("epoch", trainer.epoch(), trainer.epochs());
  const auto evaluate = [&] {
    if (const auto results = run.evaluate_epoch())
      job.set_figures(fmt::format("FPR95 {:.2f} %", 100 * results->mean.fpr95));
  };
  try {
    if (!trainer.in_epoch()) evaluate();  // a signal may have stopped the last evaluation
    while (!trainer.done()) {
      run.record(trainer.run_epoch(stop));
      run.save();
      saving.reset();
      evaluate();
      job.set_done(trainer.epoch());
      if (trainer.team().any(interrupted())) throw Interrupted();
    }
    return true;
  } catch (const Interrupted&) {
    if (trainer.in_epoch()) run.save();
    return false;
  }
}

RunOutcome train(Trainer& trainer, const Inputs& inputs, const RunFolder& folder, at::Device device) {
  if (trainer.team().first()) make_output_folder(fs::path(folder.checkpoint).parent_path().string());
  RunWriter run(folder, inputs, trainer, device);
  if (!train_epochs(trainer, run)) return {false, std::nullopt};
  if (!trainer.team().first()) return {true, std::nullopt};
  try {
    return {true, finish_run(folder, make_detector(trainer.config(), inputs.training, trainer), inputs.test)};
  } catch (const Interrupted&) {  // the checkpoint has the whole training: --resume only finishes it
    return {false, std::nullopt};
  }
}

// A training begins with the weights of network.init, if that is a file.
void import_initial_weights(Trainer& trainer) {
  const std::string path = weights_file(trainer.config());
  if (path.empty()) return;
  const Imported imported = trainer.start_from(path);
  spdlog::info("network.init: {}", imported.report);
  if (!imported.warning.empty()) spdlog::warn("network.init: {}", imported.warning);
}

// The trainer is then where the run was stopped.
void restore(Trainer& trainer, const Inputs& inputs, const RunFolder& folder, at::Device device) {
  if (!fs::exists(folder.checkpoint)) return import_initial_weights(trainer);
  read_checkpoint(folder.checkpoint, trainer, inputs.training, device);
  if (trainer.begun() > trainer.epochs()) {
    throw Error("train.epochs",
                fmt::format("{} are fewer than the {} that the run has begun", trainer.config().train.epochs,
                            trainer.begun() - trainer.config().train.pretrain),
                "give at least as many");
  }
  spdlog::info("resuming {} after {} of {} epochs{}", folder.root, trainer.epoch(), trainer.epochs(),
               trainer.done() ? " (to train longer, set train.epochs)" : "");
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
      "train.epochs is {} instead of {}: the learning rate goes on at {:.3g} instead of {:.3g}, because "
      "the schedule's milestones are shares of the whole training",
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
                            listed(keys), run + "/" + RunFolder::kConfig));
  }
}

// Where data has moved since the training, the run's config is what to change.
void find_sources(const Config& config, const RunFolder& folder) {
  try {
    check_sources(config);
  } catch (const Error& e) {
    throw e.within(folder.config);
  }
}

// The folder of a new run: locked, and in the end empty but for the config.
class NewFolder {
 public:
  NewFolder(const RunFolder& folder, bool force) : folder_(folder), force_(force) {
    check_run_folder(folder.root, force);
    existed_ = fs::exists(folder.root);
    if (existed_) lock_.emplace(folder.root);
  }

  void fill(const Config& config) {
    make_output_folder(folder_.root);
    if (!lock_) lock_.emplace(folder_.root);
    check_run_folder(folder_.root, force_);  // another process may have filled it meanwhile
    empty_folder(folder_.root);
    filled_ = true;
    write_file(folder_.config, to_yaml(config));
  }

  void remove() {  // unless there is something worth resuming
    if (!filled_ || fs::exists(folder_.checkpoint)) return;
    empty_folder(folder_.root);
    lock_.reset();
    if (!existed_) fs::remove(folder_.root);
  }

 private:
  const RunFolder& folder_;
  const bool force_;
  bool existed_ = false, filled_ = false;
  std::optional<Lock> lock_;
};

}  // namespace

void check_startable(const Config& config, at::Device device, const Processes& processes) {
  check_sources(config);
  // A network for two classes, built for nothing but its complaints.
  const NetworkSpec spec = likely_spec(config, *make_objective(config.objective));
  const Detector bare{
      make_network(spec, Weights::none()), nullptr, std::nullopt, {"0", "1"}, config.data.size};
  if (const std::string path = weights_file(config); !path.empty()) import_weights(*bare.network, path);
  unsigned found = available(bare, std::nullopt) | kTraining;
  if (config.data.validation.value_or(1) > 0) found |= kHeldOut;
  choose_scores({config.score}, found);
  computes_in_bf16(config.train.precision, device);
  check_memory(config, *bare.network, processes);
  check_gpu_memory(config, device);
}

RunOutcome start_run(const Config& given, const std::string& path, bool force, at::Device device,
                     const Team& team) {
  const RunFolder folder(path);
  const Config config = anchored(given);
  std::optional<NewFolder> target;
  if (team.first()) target.emplace(folder, force);
  check_startable(config, device, processes_of(team));
  const Inputs inputs(config);
  check_room(config, inputs, device, processes_of(team));
  Trainer trainer(config, inputs.training, device, team);
  import_initial_weights(trainer);
  check_score(config, inputs.training, trainer);  // before the training, not after it
  check_agreement(trainer, inputs.training);
  try {
    if (target) target->fill(config);
    warn_of_few_held_out(config, inputs.training);
    warn_of_small_images(config, *trainer.network());
    warn_of_leaks(inputs.training, inputs.test, config.data.folder);
    return train(trainer, inputs, folder, device);
  } catch (...) {
    if (target) target->remove();
    throw;
  }
}

RunOutcome start_run(const Config& config, const std::string& path, bool force, at::Device device) {
  return start_run(config, path, force, device, Team());
}

void rehearse_run(const Config& given, at::Device device) {
  const Config config = anchored(given);
  check_startable(config, device);
  const Inputs inputs(config);
  check_room(config, inputs, device);
  const Trainer trainer(config, inputs.training, device);
  check_score(config, inputs.training, trainer);
}

RunOutcome resume_run(const std::string& path, at::Device device, const std::vector<std::string>& set,
                      const Team& team) {
  const RunFolder folder(path);
  if (!folder.is_run()) {
    throw Error(path, "is not a run: it has no config.yaml", "name the folder of a training");
  }
  std::optional<Lock> lock;
  if (team.first()) lock.emplace(path);
  const Config before = read_config(folder.config, {}), config = anchored(read_config(folder.config, set));
  check_changeable(set, path);
  find_sources(config, folder);
  const auto objective = make_objective(config.objective);
  check_memory(config, *make_network(likely_spec(config, *objective), Weights::none()), processes_of(team));
  check_gpu_memory(config, device);
  const Inputs inputs(config);
  check_room(config, inputs, device, processes_of(team));
  Trainer trainer(config, inputs.training, device, team);
  restore(trainer, inputs, folder, device);
  check_agreement(trainer, inputs.training);
  if (!set.empty() && team.first()) {
    tell_of_rate(before, trainer);
    write_file(folder.config, to_yaml(config));
  }
  return train(trainer, inputs, folder, device);
}

RunOutcome resume_run(const std::string& path, at::Device device, const std::vector<std::string>& set) {
  return resume_run(path, device, set, Team());
}

IdImages load_id_images(const std::string& run) {
  const RunFolder folder(run);
  Config config = read_config(folder.config, {});
  config.mining.miner = "none";  // no outliers and no test sets are needed
  config.data.test.clear();
  config.data.ood.clear();
  find_sources(config, folder);
  return split_images(load_training_data(config));
}

}  // namespace poem

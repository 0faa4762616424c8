#include "study/study_run.h"

#include <ATen/Context.h>
#include <c10/core/DeviceType.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "core/file.h"
#include "core/gpus.h"
#include "core/interrupts.h"
#include "core/output_files.h"
#include "core/progress.h"
#include "poem/error.h"
#include "poem/evaluate.h"
#include "poem/fit.h"
#include "poem/training.h"
#include "study/claims.h"
#include "study/epochs_view.h"
#include "study/study_children.h"
#include "study/study_table.h"
#include "train/data.h"
#include "train/finish.h"
#include "train/run_checks.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace poem {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* kMark = "study.yaml";
constexpr const char* kClaims = "/claims";  // who trains what (study/claims.h)
constexpr const char* kTables = "tables";   // what the process takes that writes the tables

// Evaluates a trained network with several scores on the test sets, in one forward pass.
std::vector<Results> evaluate_run(const std::string& run, const std::vector<std::string>& scores,
                                  const TestData& test, at::Device device) {
  at::globalContext().setDeterministicCuDNN(true);  // for scores that take gradients
  const Detector detector = Detector::load(detector_path(run));
  detector.network->to(device);
  std::optional<IdImages> id;
  if (std::any_of(scores.begin(), scores.end(), [&](const std::string& score) {
        return score != detector.score->name() && needs(score, kImages);
      })) {
    id = load_id_images(run);
  }
  return evaluate(detector, fit_scores(scores, detector, id), test);
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) last = line;
  }
  return last;
}

class StudyRun {
 public:
  StudyRun(const Study& study, const StudyOptions& options)
      : study_(study),
        options_(options),
        plan_(make_plan(study, {at::DeviceTypeName(options.device.type(), /*lower_case=*/true)})),
        failures_(plan_.cells.size()) {}

  StudyResults run() {
    check_folder();
    check_inputs();
    make_output_folder(options_.out);
    check_folder();  // another process may have filled it meanwhile
    claims_.emplace(options_.out + kClaims, read_file(study_.path));
    if (options_.force && !claims_->alone())
      throw Error(options_.out, "is in use by another process, whose runs would be deleted",
                  "wait until it ends, or stop it");
    for (const char* name : {"runs", "logs", "cells"}) {
      const std::string folder = fmt::format("{}/{}", options_.out, name);
      if (options_.force) fs::remove_all(folder);
      make_output_folder(folder);
    }
    train_and_score();
    return collect();
  }

 private:
  // Processes that begin at the same time find each other's claims before the mark.
  void check_folder() const {
    if (!fs::exists(options_.out + kClaims)) check_output_folder(options_.out, true, kMark);
  }

  const StudyNetwork& network(const StudyCell& cell) const { return plan_.networks[cell.network]; }
  RunFolder run_folder(const StudyNetwork& network) const {
    return RunFolder(options_.out + "/runs/" + network.name);
  }
  std::string log_path(const StudyNetwork& network) const {
    return fmt::format("{}/logs/{}.log", options_.out, network.name);
  }
  std::string cell_folder(const StudyNetwork& network) const {
    return options_.out + "/cells/" + network.name;
  }
  std::string cell_path(const StudyCell& cell) const {
    return fmt::format("{}/{}-{}.json", cell_folder(network(cell)), cell.config.score, cell.tests);
  }

  // Whether there is a run of exactly this config, finished or to be resumed.
  bool begun(const StudyNetwork& network) const {
    const RunFolder folder = run_folder(network);
    if (!folder.is_run()) return false;
    Config config = read_config(folder.config, {});
    config.data.folder = network.config.data.folder;  // the data may have moved
    return training_text(study_, config) == training_text(study_, network.config);
  }
  bool trained(const StudyNetwork& network) const { return run_folder(network).finished() && begun(network); }
  bool scored(const StudyCell& cell) const { return trained(network(cell)) && fs::exists(cell_path(cell)); }

  const TestData& test_data(const StudyCell& cell) {
    const auto known = test_data_.find(cell.tests);
    if (known != test_data_.end()) return known->second;
    const DataSettings& data = cell.config.data;
    return test_data_[cell.tests] = load_test_data(data.test, data.ood, read_options(data));
  }

  // Finds everything that would make a training or a score fail, before hours are spent on the others. The
  // checks that need no images come first. One seed is checked for all.
  void check_inputs() {
    std::set<std::string> seen;
    const auto is_new = [&seen](Config config) {
      config.seed = 0;
      return seen.insert(to_yaml(config)).second;
    };
    for (const StudyCell& cell : plan_.cells) {
      stop_if_interrupted();
      if (!options_.force && trained(network(cell))) continue;
      if (!is_new(cell.config)) continue;
      named(cell, [&] { check_startable(anchored(cell.config), options_.device); });
    }
    seen.clear();
    for (const StudyCell& cell : plan_.cells) {
      stop_if_interrupted();
      if (!options_.force && scored(cell)) continue;
      Config config = cell.config;
      config.train.precision = Precision::kFloat32;  // this check is made on the CPU
      config.score = network(cell).config.score;     // one cell is checked for all of its network
      if (!is_new(config)) continue;
      spdlog::info("checking {}", cell_name(study_, cell));
      named(cell, [&] {
        const TestData& test = test_data(cell);
        const TrainingData data = load_training_data(config);
        const Trainer trainer(config, data, at::kCPU);
        for (const StudyCell& other : plan_.cells) {
          if (other.network == cell.network) check_score(other.config, data, trainer);
        }
        check_fits(data.id.channels(), data.id.class_names, test);
      });
    }
  }

  // Adds the name of the cell to an Error of `check`.
  void named(const StudyCell& cell, const std::function<void()>& check) const {
    try {
      check();
    } catch (const Error& e) {
      throw e.within(fmt::format("{}: {}", study_.path, cell_name(study_, cell)));
    }
  }

  // Other processes may do the same in this folder: each takes networks that nobody has. All go on until
  // every network is done.
  void train_and_score() {
    std::vector<size_t> left;
    for (size_t i = 0; i < plan_.networks.size(); ++i) {
      if (!trained(plan_.networks[i])) ++networks_left_;
      if (!done(i)) left.push_back(i);
      cells_done_ += done(i) ? cells_of(i).size() : 0;
    }
    spdlog::info("{}: {} cells of {} networks, {} of them to train (logs in {}/logs)", study_.title,
                 plan_.cells.size(), plan_.networks.size(), networks_left_, options_.out);
    publish();
    began_ = Clock::now();
    Children children;
    while (!left.empty() || children.running() > 0) {
      stop_if_interrupted();
      const size_t before = left.size();
      left.erase(std::remove_if(left.begin(), left.end(),
                                [&](size_t i) { return done_elsewhere(i) || begin(i, children); }),
                 left.end());
      if (children.running() > 0 &&
          (children.running() == options_.jobs || left.empty() || before == left.size())) {
        settle(children.wait([this] { view_.show(); }));
      } else if (before == left.size()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));  // others train what is left
        continue;
      }
      publish();
    }
  }

  bool done(size_t network) const {
    const std::vector<size_t> cells = cells_of(network);
    return std::all_of(cells.begin(), cells.end(), [this](size_t i) { return scored(plan_.cells[i]); });
  }

  bool done_elsewhere(size_t index) {
    const StudyNetwork& network = plan_.networks[index];
    if (done(index)) {
      for (const size_t i : cells_of(index)) tell(i, "another process has trained it");
    } else if (const auto why = claims_->failure(network.name)) {
      fail(cells_of(index), *why);
    } else {
      return false;
    }
    if (networks_left_ > 0) --networks_left_;
    return true;
  }

  // False if there is no room for it now, or another process has it.
  bool begin(size_t index, Children& children) {
    const StudyNetwork& network = plan_.networks[index];
    if (!trained(network) && children.running() >= options_.jobs) return false;
    if (!claims_->take(network.name)) return false;
    if (done(index)) {  // since we looked
      claims_->release(network.name);
      return done_elsewhere(index);
    }
    anchor_run(network);
    if (trained(network)) {
      score_network(index);
    } else {
      view_.follow(index, network.name, run_folder(network).metrics,
                   network.config.train.pretrain + network.config.train.epochs);
      start(index, children);
    }
    return true;
  }

  // A study may have moved together with its data. Existing runs then look for the data in the new place. The
  // rest of their config stays, even the score, because a checkpoint resumes only with its own config.
  void anchor_run(const StudyNetwork& network) const {
    if (!begun(network)) return;
    const RunFolder folder = run_folder(network);
    Config config = read_config(folder.config, {});
    config.data.folder = anchored(network.config).data.folder;
    write_file(folder.config, to_yaml(config));
  }

  void start(size_t index, Children& children) {
    const StudyNetwork& network = plan_.networks[index];
    const RunFolder folder = run_folder(network);
    if (!begun(network)) {
      make_output_folder(folder.root);
      empty_folder(folder.root);
      fs::remove_all(cell_folder(network));
      // A folder with only a config is resumed like a run that was stopped before its first checkpoint.
      write_file(folder.config, to_yaml(anchored(network.config)));
    }
    std::vector<std::string> command = options_.program;
    command.insert(command.end(), {"train", "--resume", folder.root});
    // srun, mpirun or torchrun may have started this process among others. Its trainings are no ranks of a
    // team.
    std::vector<std::string> variables = {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0"};
    if (options_.device.is_cuda() && !gpus_.empty())
      variables.push_back(gpu_variable(gpus_, free_gpu(index)));
    children.start(index, command, log_path(network), variables);
  }

  // The GPU with the fewest networks in training, this one included from now on.
  size_t free_gpu(size_t network) {
    std::vector<int> busy(gpus_.size());
    for (const auto& running : gpu_of_) ++busy[running.second];
    const auto least = std::min_element(busy.begin(), busy.end());
    return gpu_of_[network] = static_cast<size_t>(least - busy.begin());
  }

  void settle(const Children::Ended& ended) {
    view_.forget(ended.id);
    gpu_of_.erase(ended.id);
    --networks_left_;
    ++networks_done_;
    if (ended.code == 0) return score_network(ended.id);
    const std::string log = log_path(plan_.networks[ended.id]);
    const std::string why =
        fmt::format("training ended with exit code {}: {} (see {})", ended.code, last_line(log), log);
    claims_->fail(plan_.networks[ended.id].name, why);
    fail(cells_of(ended.id), why);
  }

  std::vector<size_t> cells_of(size_t network) const {
    std::vector<size_t> cells;
    for (size_t i = 0; i < plan_.cells.size(); ++i) {
      if (plan_.cells[i].network == network) cells.push_back(i);
    }
    return cells;
  }

  void fail(const std::vector<size_t>& cells, const std::string& why) {
    for (const size_t i : cells) {
      failures_[i] = why;
      tell(i, why);
    }
  }

  void tell(size_t cell, const std::string& what) {
    spdlog::info("[{}/{}] {}: {}", ++cells_done_, plan_.cells.size(), cell_name(study_, plan_.cells[cell]),
                 what);
  }

  // Scores every cell of a trained network; cells with the same test sets share a forward pass.
  void score_network(size_t index) {
    std::map<std::string, std::vector<size_t>> by_tests;
    for (const size_t i : cells_of(index)) {
      if (fs::exists(cell_path(plan_.cells[i]))) {
        ++cells_done_;
      } else {
        by_tests[plan_.cells[i].tests].push_back(i);
      }
    }
    for (const auto& group : by_tests) {
      stop_if_interrupted();
      try {
        score_cells(group.second);
      } catch (const Interrupted&) {
        throw;
      } catch (const std::exception& e) {
        const std::string why = Error("scoring failed", e.what()).what();  // one line, whatever threw it
        claims_->fail(plan_.networks[index].name, why);
        fail(group.second, why);
      }
    }
    if (done(index)) claims_->release(plan_.networks[index].name);
  }

  void score_cells(const std::vector<size_t>& cells) {
    const StudyCell& first = plan_.cells[cells.front()];
    std::vector<std::string> scores;  // each once: rows may differ only in their names
    for (const size_t i : cells) {
      const std::string& score = plan_.cells[i].config.score;
      if (std::find(scores.begin(), scores.end(), score) == scores.end()) scores.push_back(score);
    }
    const auto results =
        evaluate_run(run_folder(network(first)).root, scores, test_data(first), options_.device);
    make_output_folder(cell_folder(network(first)));
    for (const size_t i : cells) {
      const StudyCell& cell = plan_.cells[i];
      const auto score = std::find(scores.begin(), scores.end(), cell.config.score);
      const Results& figures = results[static_cast<size_t>(score - scores.begin())];
      write_file(cell_path(cell), to_json_text(figures));
      ++cells_done_;
      tell(cell, figures);
    }
  }

  void tell(const StudyCell& cell, const Results& results) const {
    const double used = std::chrono::duration<double>(Clock::now() - began_).count();
    std::string time;
    if (networks_done_ > 0) time = fmt::format("  ({} used", duration_text(used));
    if (networks_done_ > 0 && networks_left_ > 0) {
      const double each = used / static_cast<double>(networks_done_);
      time += fmt::format(", about {} left", duration_text(each * static_cast<double>(networks_left_)));
    }
    if (!time.empty()) time += ")";
    spdlog::info("[{}/{}] {}: FPR95 {:.2f}, AUROC {:.2f}{}", cells_done_, plan_.cells.size(),
                 cell_name(study_, cell), 100 * results.mean.fpr95, 100 * results.mean.auroc, time);
  }

  // The finished cells, and the missing ones.
  StudyResults collect() const {
    StudyResults results;
    for (size_t i = 0; i < plan_.cells.size(); ++i) {
      const StudyCell& cell = plan_.cells[i];
      if (scored(cell)) {
        results.cells.push_back(read_cell(cell));
      } else {
        results.missing.push_back({cell.setting, cell.method, cell.seed, failures_[i]});
      }
    }
    return results;
  }

  CellResult read_cell(const StudyCell& cell) const {
    CellResult result;
    result.setting = cell.setting;
    result.method = cell.method;
    result.seed = cell.seed;
    result.run = network(cell).name;
    result.score = cell.config.score;
    const std::string path = cell_path(cell);
    const RunFolder run = run_folder(network(cell));
    whole(path, path, [&] { result.results = ordered_json::parse(read_file(path)); });
    whole(run.metrics, run.root, [&] { read_epochs(cell, run.metrics, result); });
    return result;
  }

  // An Error if `read` finds that the file is not JSON, or lacks an entry. The remedy is to delete `remains`.
  static void whole(const std::string& path, const std::string& remains, const std::function<void()>& read) {
    try {
      read();
    } catch (const nlohmann::json::exception& e) {
      throw Error(path, fmt::format("is damaged: {}", e.what()),
                  fmt::format("delete {} and run the same command: it makes it again", remains));
    }
  }

  static void read_epochs(const StudyCell& cell, const std::string& path, CellResult& result) {
    std::ifstream epochs(path);
    for (std::string line; std::getline(epochs, line);) {
      const ordered_json epoch = ordered_json::parse(line);
      for (const ordered_json& phase : epoch.at("seconds")) result.seconds += phase.get<double>();
      const auto figures = epoch.find("results");
      if (figures == epoch.end() || figures->is_null()) continue;
      // Pre-training is not counted.
      result.curve.emplace_back(epoch.at("epoch").get<int64_t>() - cell.config.train.pretrain, *figures);
    }
  }

  // Writes the tables of the finished cells, unless another process does.
  void publish() {
    if (!claims_->take(kTables)) return;
    const StudyResults results = collect();
    const StudyTable table = make_table(study_, results);
    std::vector<std::pair<std::string, std::string>> files = {
        {options_.out + "/" + kMark, read_file(study_.path)},
        {options_.out + "/results.json", to_json_text(study_, results)},
        {options_.out + "/results.csv", to_csv(study_, results.cells)},
        {options_.out + "/table.md", to_markdown(table)},
        {options_.out + "/table.tex", to_latex(table)}};
    if (study_.curves > 0)
      files.emplace_back(options_.out + "/curves.csv", curves_csv(study_, results.cells));
    std::vector<std::string> paths;
    for (const auto& file : files) paths.push_back(file.first);
    OutputFiles output(paths, true);
    for (const auto& file : files)
      output.write(file.first, [&](const std::string& staged) { write_file(staged, file.second); });
    output.commit();
    if (options_.published) options_.published();
  }

  const Study& study_;
  const StudyOptions& options_;
  const StudyPlan plan_;
  std::map<std::string, TestData> test_data_;  // by StudyCell::tests
  std::vector<std::string> failures_;          // per cell; empty if it did not fail
  std::optional<Claims> claims_;
  EpochsView view_;
  const std::vector<std::string> gpus_ = visible_gpus();
  std::map<size_t, size_t> gpu_of_;  // of every network in training
  size_t networks_done_ = 0, networks_left_ = 0, cells_done_ = 0;
  Clock::time_point began_ = Clock::now();
};

}  // namespace

StudyResults run_study(const Study& study, const StudyOptions& options) {
  return StudyRun(study, options).run();
}

}  // namespace poem

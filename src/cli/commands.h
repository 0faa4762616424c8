// One function per subcommand. Each adds the options, the help with examples, and the action.
#pragma once
#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace poem {

struct Study;

struct CommonOptions {  // before or after any subcommand's name
  bool quiet = false;
  int threads = 0;
  std::string device = "auto";
};

// Thrown at the end of a command that did all it could: some of its input was bad. Exit code 3.
struct Incomplete : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Thrown by a command whose work other processes did, and explained: the exit code of the first that failed.
struct Ended {
  int code;
};

// --set KEY=VALUE (repeatable), collected as assignments for read_config(); `set` must outlive the app.
void add_set(CLI::App& command, std::vector<std::string>& set);
void add_overrides(CLI::App& command, std::vector<std::string>& set);  // and --seed S

// --balance ID:OOD and the --seed of its random choice, for parse_balance().
void add_balance(CLI::App& command, std::string& balance, uint64_t& seed);

// The default output folder of a command that reads `file`: runs/NAME for NAME.yaml.
std::string default_folder(const std::string& file);

// Trains and scores what the study lacks in folder `out`, prints the table, and writes tables and report.
void carry_out(const Study& study, const std::string& out, size_t jobs, bool force,
               const CommonOptions& common);

void add_bench(CLI::App& app, const CommonOptions& common);
void add_calibrate(CLI::App& app, const CommonOptions& common);
void add_config(CLI::App& app);
void add_data(CLI::App& app);
void add_data_check(CLI::App& data);
void add_demo(CLI::App& app, const CommonOptions& common);
void add_eval(CLI::App& app, const CommonOptions& common);
void add_export(CLI::App& app);
void add_features(CLI::App& app, const CommonOptions& common);
void add_info(CLI::App& app);
void add_launch(CLI::App& app, const CommonOptions& common);
void add_metrics(CLI::App& app);
void add_mine(CLI::App& app);
void add_pack(CLI::App& app);
void add_plan(CLI::App& app);
void add_posthoc(CLI::App& app);
void add_predict(CLI::App& app, const CommonOptions& common);
void add_report(CLI::App& app);
void add_serve(CLI::App& app, const CommonOptions& common);
void add_study(CLI::App& app, const CommonOptions& common);
void add_theory(CLI::App& app);
void add_toy(CLI::App& app, const CommonOptions& common);
void add_train(CLI::App& app, const CommonOptions& common);
void add_world(CLI::App& app);

}  // namespace poem

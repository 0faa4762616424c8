// poem theory: the paper's Gaussian model, measured beside its theorem.
#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "core/terminal.h"
#include "report/theory_report.h"

namespace poem {
namespace {

struct Options {
  std::string out = "runs/theory";
  TheorySettings settings;
  bool force = false;
};

void run(const Options& options) {
  catch_interrupts();
  check_output_folder(options.out, options.force, kTheoryMark);
  const std::vector<TheoryRow> rows = measure_theory(options.settings);
  fill_output_folder(options.out, options.force, kTheoryMark,
                     [&] { write_theory(options.settings, rows, options.out); });
  fmt::print("{}", to_text(to_table(options.settings, rows), terminal(STDOUT_FILENO)));
  fmt::print(
      "\nThe table compares outliers with the smallest epsilon and unconstrained outliers (means of {} "
      "trials).\n"
      "For epsilon up to 1 the theorem says ratio >= bound; \"violated\" is the share of trials in which it "
      "is\n"
      "smaller. All results: {}/theory.csv\n",
      options.settings.repeats, options.out);
}

template <class Value>
CLI::Option* add_list(CLI::App& command, const char* name, std::vector<Value>& values, const char* help,
                      const CLI::Validator& allowed) {
  return command.add_option(name, values, help)
      ->delimiter(',')
      ->expected(1, 5)
      ->check(allowed)
      ->capture_default_str()
      ->type_name("LIST");
}

}  // namespace

void add_theory(CLI::App& app) {
  auto options = std::make_shared<Options>();
  TheorySettings& settings = options->settings;
  auto* command = app.add_subcommand("theory", "Measure the paper's Gaussian model beside its theorem");
  command->add_option("--out", options->out, "Folder for tables and pictures")
      ->capture_default_str()
      ->type_name("DIR");
  command->add_option("--repeats", settings.repeats, "Trials per setting")
      ->check(whole(2, 1000000))
      ->capture_default_str()
      ->type_name("N");
  add_list(*command, "--dimensions", settings.dimensions, "d", whole(1, 100000));
  add_list(*command, "--samples", settings.samples, "n, the number of ID points and of outliers",
           whole(1, 100000));
  add_list(*command, "--signals", settings.signals, "r0 = |mu| / sigma", number(0.1, 30));
  add_list(*command, "--epsilons", settings.epsilons, "Largest -G(x) of an outlier", number(1e-6, 1e4))
      ->expected(1, 100);
  command->add_option("--sigma", settings.sigma, "sigma in the bound; it does not affect what is measured")
      ->check(number(0.01, 100))
      ->capture_default_str()
      ->type_name("X");
  command->add_option("--seed", settings.seed, "Seed of every draw")
      ->check(whole(0))
      ->capture_default_str()
      ->type_name("S");
  command->add_flag("--force", options->force, "Replace DIR if an earlier poem theory wrote it");
  command->footer(
      "Separate the entries of a list by commas. docs/theory.md says what holds and what does not.\n"
      "Examples:\n"
      "  poem theory\n"
      "  poem theory --out small --dimensions 10 --samples 50 --signals 3 --repeats 100");
  command->callback([options] { run(*options); });
}

}  // namespace poem

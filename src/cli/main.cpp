// The program `poem`. Each subcommand has a file of its own; this one has what they share.
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <regex>
#include <system_error>

#include "cli/commands.h"
#include "cli/launched.h"
#include "cli/numbers.h"
#include "core/interrupts.h"
#include "core/mapped_file.h"
#include "core/memory.h"
#include "core/terminal.h"
#include "core/text.h"
#include "dist/team.h"
#include "poem/error.h"
#include "poem/runtime.h"
#include "poem/version.h"

namespace poem {

void add_set(CLI::App& command, std::vector<std::string>& set) {
  command.add_option("--set", set, "Override a key of the config: --set train.epochs=3 (may be repeated)")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void add_overrides(CLI::App& command, std::vector<std::string>& set) {
  add_set(command, set);
  command
      .add_option_function<int64_t>(
          "--seed", [&set](int64_t seed) { set.push_back(fmt::format("seed={}", seed)); },
          "Short for --set seed=S")
      ->check(whole(0))
      ->type_name("S");
}

std::string default_folder(const std::string& file) {
  return "runs/" + std::filesystem::path(file).stem().string();
}

void add_balance(CLI::App& command, std::string& balance, uint64_t& seed) {
  command
      .add_option("--balance", balance,
                  "Use a random part of the scores, so that ID and OOD have this ratio (AUPR depends on it)")
      ->type_name("ID:OOD");
  command.add_option("--seed", seed, "Seed of the part that --balance chooses")
      ->check(whole(0))
      ->capture_default_str()
      ->type_name("S");
}

}  // namespace poem

namespace {

enum ExitCode { kDone = 0, kInternal = 1, kUserError = 2, kIncomplete = 3, kSignal = 128 };

// Commands appear in the help in this order, under the heading of their group.
void add_commands(CLI::App& app, const poem::CommonOptions& common) {
  size_t grouped = 0;
  const auto group = [&](const char* heading) {
    const auto commands = app.get_subcommands({});
    for (; grouped < commands.size(); ++grouped) commands[grouped]->group(heading);
  };
  poem::add_demo(app, common);
  poem::add_train(app, common);
  poem::add_launch(app, common);
  poem::add_config(app);
  poem::add_mine(app);
  group("Train");
  poem::add_predict(app, common);
  poem::add_calibrate(app, common);
  poem::add_serve(app, common);
  poem::add_export(app);
  group("Use");
  poem::add_eval(app, common);
  poem::add_features(app, common);
  poem::add_posthoc(app);
  poem::add_metrics(app);
  group("Judge");
  poem::add_study(app, common);
  poem::add_toy(app, common);
  poem::add_theory(app);
  group("Study");
  poem::add_plan(app);
  poem::add_bench(app, common);
  group("Plan");
  poem::add_info(app);
  poem::add_report(app);
  group("Look into");
  poem::add_data(app);
  poem::add_pack(app);
  poem::add_world(app);
  group("Data");
  for (CLI::App* command : app.get_subcommands({})) {
    command->footer(command->get_footer() + "\nAlso: --device, --threads and --quiet (poem --help).");
  }
}

std::vector<std::string> option_names(const CLI::App* command) {
  std::vector<std::string> names;
  for (; command != nullptr; command = command->get_parent()) {
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

// The subcommand that was given, or that of a subcommand.
const CLI::App* given_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return command;
}

// The library names what its caller can set as "option NAME". Here that is a flag, or, if the command has
// none, the config's key that may follow.
std::string with_flags(std::string remedy, const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    std::string name = flag.substr(2);
    std::replace(name.begin(), name.end(), '-', '_');
    remedy = std::regex_replace(remedy, std::regex("\\boption " + name + "\\b"), flag);
  }
  remedy = std::regex_replace(remedy, std::regex("option \\w+; in a config set "), "");
  return std::regex_replace(remedy, std::regex("resume the run "),
                            "resume the run with: poem train --resume ");
}

// CLI11 reports unknown options last, after options that are missing because they were mistyped. Name the
// unknown one first.
std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = given_command(app);
  std::string help = " --help";
  for (const CLI::App* part = command; part != nullptr; part = part->get_parent())
    help = " " + part->get_name() + help;
  help = "see" + help;
  std::vector<std::string> unknown;
  if (!command->get_prefix_command()) unknown = app.remaining(/*recurse=*/true);
  unknown.erase(std::remove(unknown.begin(), unknown.end(), "--"), unknown.end());
  if (unknown.empty()) return fmt::format("{} ({})", error.what(), help);
  const std::string name = unknown[0].substr(0, unknown[0].find('='));
  if (name[0] == '-') {
    return fmt::format("unknown option '{}' ({}{})", name, poem::suggestion(name, option_names(command)),
                       help);
  }
  std::vector<std::string> commands;
  for (const CLI::App* known : command->get_subcommands({})) commands.push_back(known->get_name());
  return fmt::format("{} '{}' ({}{})", commands.empty() ? "unexpected argument" : "unknown command",
                     unknown[0], poem::suggestion(unknown[0], commands), help);
}

// Output that could not be written, for instance to a full disk, is an error too.
void flush_output() {
  if (std::fflush(stdout) != 0) {
    throw poem::Error("standard output", std::string("cannot write: ") + std::strerror(errno),
                      "free some space or choose another place");
  }
}

// Always one line: a path in the message may contain a line feed.
int fail(ExitCode code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  if (!poem::tell_launcher(message)) poem::print_fault(message);
  return code;
}

int run(int argc, char** argv) {
  poem::CommonOptions common;
  CLI::App app("Out-of-distribution detection with outlier mining by posterior sampling (POEM)", "poem");
  app.set_version_flag("--version", std::string("poem ") + poem::version());
  app.add_flag("--quiet", common.quiet, "Warnings and results only");
  app.add_option("--threads", common.threads, "Threads to compute with (default: all cores)")
      ->check(poem::whole(1, 1024))
      ->type_name("N");
  app.add_option("--device", common.device, "auto, cpu or cuda")->capture_default_str()->type_name("NAME");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer("poem COMMAND --help describes a command and gives examples.");
  app.parse_complete_callback([&] {
    poem::set_up_logging(common.quiet);
    poem::show_progress(!common.quiet);
    poem::set_up_runtime(common.threads);
  });
  add_commands(app, common);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const poem::Incomplete& e) {
    flush_output();
    return fail(kIncomplete, e.what());
  } catch (const CLI::ParseError& e) {
    return fail(kUserError, explain(app, e));
  } catch (const poem::Error& e) {
    const std::string dashes = e.where().rfind("set ", 0) == 0 ? "--" : "";  // as the command calls it
    throw poem::Error(dashes + e.where(), e.problem(),
                      with_flags(e.remedy(), option_names(given_command(app))));
  }
  flush_output();
  return kDone;
}

// The exit code, and on stderr what failed.
int run_and_report(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const poem::Interrupted&) {  // in a team, another rank may have been told
    return kSignal + (poem::interrupted() ? poem::interrupt_signal() : SIGINT);
  } catch (const poem::SaidElsewhere&) {
    return kUserError;
  } catch (const poem::Ended& e) {
    return e.code;
  } catch (const poem::Error& e) {
    return fail(kUserError, e.what());
  } catch (const c10::OutOfMemoryError& e) {
    return fail(kUserError,
                fmt::format("--device cuda: {}: lower train.batch and train.outlier_batch, or data.size",
                            e.what_without_backtrace()));
  } catch (const std::filesystem::filesystem_error& e) {  // no permission, or a name too long
    return fail(kUserError, fmt::format("{}: {}", e.path1().string(), e.code().message()));
  } catch (const std::system_error& e) {  // thrown by fmt::print
    return fail(kUserError,
                fmt::format("standard output: {} (free some space or choose another place)", e.what()));
  } catch (const std::exception& e) {
    if (poem::is_out_of_memory(e))
      return fail(kUserError, "not enough memory (free some, or use smaller settings)");
    return fail(kInternal, fmt::format("internal error: {}", e.what()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // lines keep their order where stdout and stderr go to one file
  poem::name_lost_pages(kUserError);
  std::signal(SIGXFSZ, SIG_IGN);  // a file above the limit of `ulimit -f` is an Error then
  const int code = run_and_report(argc, argv);
#ifndef __SANITIZE_ADDRESS__  // which looks for leaks at a normal exit
  // Everything is written. To take LibTorch apart would take 75 ms more, of the 500 ms of a short command.
  std::fflush(nullptr);
  std::_Exit(code);
#endif
  return code;
}

// The program `poem`: one file a subcommand, this one for what they share.
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "cli/commands.h"
#include "core/error.h"
#include "core/progress.h"
#include "core/runtime.h"
#include "core/version.h"

namespace poem {

void add_overrides(CLI::App& command, std::vector<std::string>& set) {
  command.add_option("--set", set, "Override a key of the config: --set train.epochs=3 (may be repeated)")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option_function<int64_t>(
          "--seed", [&set](int64_t seed) { set.push_back(fmt::format("seed={}", seed)); },
          "Short for --set seed=S")
      ->type_name("S");
}

}  // namespace poem

namespace {

enum ExitCode { kDone = 0, kInternal = 1, kUserError = 2, kInterrupted = 130 };

void add_commands(CLI::App& app, const poem::CommonOptions& common) {
  poem::add_demo(app, common);
  poem::add_train(app, common);
  poem::add_eval(app, common);
  poem::add_metrics(app);
  poem::add_mine(app);
  poem::add_pack(app);
  poem::add_info(app);
  poem::add_config(app);
}

int run(int argc, char** argv) {
  poem::CommonOptions common;
  CLI::App app("Out-of-distribution detection with outlier mining by posterior sampling (POEM)", "poem");
  app.set_version_flag("--version", std::string("poem ") + poem::version());
  app.add_flag("--quiet", common.quiet, "Warnings and results only");
  app.add_option("--threads", common.threads, "Threads to compute with (default: all cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--device", common.device, "auto, cpu or cuda")->capture_default_str()->type_name("NAME");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer("poem COMMAND --help tells more and gives examples.");
  app.parse_complete_callback([&] {
    poem::set_up_logging(common.quiet);
    poem::set_up_runtime(common.threads);
  });
  add_commands(app, common);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);  // --help, --version
  } catch (const CLI::ParseError& e) {
    fmt::print(stderr, "poem: {} (see poem --help)\n", e.what());
    return kUserError;
  }
  return kDone;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const poem::Interrupted&) {
    return kInterrupted;
  } catch (const poem::Error& e) {
    fmt::print(stderr, "poem: {}\n", e.what());
    return kUserError;
  } catch (const std::exception& e) {
    fmt::print(stderr, "poem: internal error: {}\n", e.what());
    return kInternal;
  }
}

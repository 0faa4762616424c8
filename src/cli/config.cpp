// poem config: every key with its default, range and meaning.
#include <fmt/format.h>

#include "cli/commands.h"
#include "train/config_keys.h"

namespace poem {

void add_config(CLI::App& app) {
  auto markdown = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("config", "Print every key of a config with default, range and meaning");
  command->add_flag("--markdown", *markdown, "Print the table of docs/config.md");
  command->footer("Example:\n  poem config > my.yaml     a config to start from");
  command->callback([markdown] {
    Config config;
    const auto table = keys(config);
    fmt::print("{}", *markdown ? to_markdown(table) : to_yaml(table, true));
  });
}

}  // namespace poem

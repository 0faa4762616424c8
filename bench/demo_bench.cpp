// `make demo` once built: nine trainings, two at a time, and the table, as a user runs them.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "compare.h"

namespace poem::bench {

POEM_BENCH(demo) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "../poem";
  const auto out = std::filesystem::temp_directory_path() / ("poem-demo-" + std::to_string(getpid()));
  const std::string command = program.string() + " demo --quiet --out " + out.string() + " >/dev/null";
  time_once(
      "poem demo: seconds",
      [&] {
        if (std::system(command.c_str()) != 0) throw std::runtime_error("poem demo failed");
      },
      240);
  std::filesystem::remove_all(out);
}

}  // namespace poem::bench

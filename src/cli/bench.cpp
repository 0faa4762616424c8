// poem bench: how fast an epoch of the paper's setting is here.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/error.h"
#include "core/runtime.h"
#include "train/paper_epochs.h"

namespace poem {
namespace {

struct Options {
  std::string queue = "both";
  int64_t epochs = 6;
  bool deterministic = false;
};

// Counted: what the network must move through an H200's memory at 4.3 TB/s (docs/performance.md).
constexpr double kForwardFloor = 400000, kTrainFloor = 100000;  // images/s

void print_row(const std::string& phase, double seconds, double images, double floor_seconds,
               double authors) {
  fmt::print("{:<34} {:8.2f} {:10.0f} {:9.0f} % {:9.1f} {:8.1f}\n", phase, seconds, images / seconds,
             100 * floor_seconds / seconds, authors, authors / seconds);
}

// Beside each phase what the authors' script took on an H200; its queue held one epoch for `stored`.
void print_epoch(const EpochReport& report, const PaperEpochs& settings) {
  const PhaseImages images = paper_images(settings, report.epoch);
  const double select = 67.7, train = 122.0, queue = settings.queue == "fresh" ? 45 : 11.3;
  fmt::print("\n{}, epoch {}, loss {:.3f}\n{:<34} {:>8} {:>10} {:>11} {:>9} {:>8}\n", settings.queue,
             report.epoch, report.loss, "phase", "s", "images/s", "of floor", "authors s", "ratio");
  print_row("score the pool, select", report.mine_seconds, images.scored, images.scored / kForwardFloor,
            select);
  print_row("train", report.train_seconds, images.trained, images.trained / kTrainFloor, train);
  print_row("queue and posterior", report.queue_seconds, images.queued, images.queued / kForwardFloor, queue);
  print_row("epoch", report.mine_seconds + report.train_seconds + report.queue_seconds,
            images.scored + images.trained + images.queued,
            (images.scored + images.queued) / kForwardFloor + images.trained / kTrainFloor,
            select + train + queue);
  std::fflush(stdout);
}

void run(const Options& options) {
  const at::Device device = pick_device("auto");
  if (!device.is_cuda()) {
    throw Error("bench gpu", "finds no GPU, or this poem was built without CUDA",
                "run it where there is one, with the build of the preset cuda; make bench times this CPU");
  }
  catch_interrupts();
  for (const std::string queue : {"fresh", "stored"}) {
    if (options.queue != "both" && options.queue != queue) continue;
    const PaperEpochs settings{queue, options.epochs, options.deterministic};
    const double common = run_paper_epochs(settings, device, [&](const EpochReport& report) {
      const bool last = report.epoch == options.epochs;
      // Nothing is stored after the last epoch.
      if (queue == "fresh" ? last : report.epoch == options.epochs - 1) print_epoch(report, settings);
    });
    fmt::print("an eighth of a pool chosen by bfloat16 and by float32: {:.1f} % in common\n", 100 * common);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* bench = app.add_subcommand("bench", "Time an epoch of the paper's setting");
  bench->require_subcommand(1);
  auto* command = bench->add_subcommand("gpu", "On this machine's GPU, phase by phase");
  command->add_option("--queue", options->queue, "fresh, stored or both")
      ->check(CLI::IsMember({"fresh", "stored", "both"}))
      ->capture_default_str()
      ->type_name("NAME");
  command->add_option("--epochs", options->epochs, "Epochs to run; from the fifth on the queue is full")
      ->check(whole(2, 1000))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--deterministic", options->deterministic, "With train.deterministic");
  bench->footer("Example:\n  poem bench gpu --queue fresh");
  command->callback([options] { run(*options); });
}

}  // namespace poem

// Times an epoch of the paper's setting on this machine's GPU, phase by phase.
//
//   build-cuda/bench/gpu_bench --queue fresh
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <exception>

#include "core/interrupts.h"
#include "paper_epochs.h"
#include "poem/error.h"
#include "poem/network.h"
#include "poem/runtime.h"
#include "poem/scores.h"

namespace poem::bench {
namespace {

struct Options {
  std::string queue = "both";
  int64_t epochs = 6;
  bool deterministic = false, costs = false;
};

// The most images/s that an H200's memory (4.3 TB/s) allows, from a count of the bytes that the network must
// move (docs/performance.md).
constexpr double kForwardFloor = 400000, kTrainFloor = 100000;

void print_row(const std::string& phase, double seconds, double images, double floor_seconds,
               double authors) {
  fmt::print("{:<34} {:8.2f} {:10.0f} {:9.0f} % {:9.1f} {:8.1f}\n", phase, seconds, images / seconds,
             100 * floor_seconds / seconds, authors, authors / seconds);
}

// Beside each phase stands the time of the authors' script on an H200. Its queue held one epoch for `stored`.
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

// Seconds of the second epoch of three: the first records the step, and nothing is stored after the last.
double epoch_seconds(const PaperEpochs& settings, at::Device device) {
  double seconds = 0;
  run_paper_epochs(settings, device, [&](const EpochReport& report) {
    if (report.epoch == 2) seconds = report.mine_seconds + report.train_seconds + report.queue_seconds;
  });
  return seconds;
}

// Scores of 43,000 test inputs against 49,000 training features, as for CIFAR-10 and its OOD sets.
void print_knn(at::Device device) {
  constexpr int64_t kKnown = 49000, kTest = 43000, kBlock = 500, kFeatures = 342;
  Training training;
  training.features = at::rand({kKnown, kFeatures});
  const auto knn = make_fitted_score("knn", training, /*only=*/true);
  NetworkSpec spec;
  spec.name = "mlp";
  const auto network = make_network(spec, 0);  // only its device matters
  network->to(device);
  const auto seconds = [&](Network* where) {
    Batch batch;
    batch.network = where;
    batch.features = at::rand({kBlock, kFeatures});
    (*knn)(batch);
    const auto start = std::chrono::steady_clock::now();
    for (int64_t done = 0; done < kTest; done += kBlock) (*knn)(batch);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const double gpu = seconds(network.get()), cpu = seconds(nullptr);
  fmt::print("{:<44} {:6.2f} s {:6.2f} s  ratio {:5.3f}\n", "KNN of 43,000 × 49,000 features, GPU / CPU", gpu,
             cpu, gpu / cpu);
}

// What an option adds to an epoch.
void print_costs(at::Device device) {
  constexpr int64_t kEpochs = 3;
  const double plain = epoch_seconds({"stored", kEpochs}, device);
  const auto print = [&](const char* option, const PaperEpochs& settings, double at_most) {
    const double with = epoch_seconds(settings, device);
    fmt::print("{:<44} {:6.2f} s {:6.2f} s  ratio {:5.3f}  at most {:4.2f}  {}\n", option, with, plain,
               with / plain, at_most, with / plain <= at_most ? "pass" : "FAIL");
    std::fflush(stdout);
  };
  print("epoch, train.deterministic: true / false", {"stored", kEpochs, true}, 1.03);
  print("epoch, train.average: 0.999 / 0", {"stored", kEpochs, false, 0.999}, 1.02);
  print_knn(device);
}

void run(const Options& options) {
  const at::Device device = pick_device("auto");
  if (!device.is_cuda()) {
    throw Error("gpu_bench", "there is no GPU, or this build is without CUDA",
                "run make bench-gpu on a machine with a GPU; make bench times this CPU");
  }
  catch_interrupts();
  if (options.costs) return print_costs(device);
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

int parse_and_run(int argc, char** argv) {
  Options options;
  CLI::App app("Times an epoch of the paper's setting on this machine's GPU, phase by phase", "gpu_bench");
  app.add_option("--queue", options.queue, "fresh, stored or both")
      ->check(CLI::IsMember({"fresh", "stored", "both"}))
      ->capture_default_str()
      ->type_name("NAME");
  app.add_option("--epochs", options.epochs, "Epochs to run; the queue is full from the fifth on")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--deterministic", options.deterministic, "With train.deterministic");
  app.add_flag("--costs", options.costs,
               "Only time what train.deterministic and train.average add to an epoch, and the score knn");
  CLI11_PARSE(app, argc, argv);
  set_up_logging(/*quiet=*/false);
  set_up_runtime(0);
  run(options);
  return 0;
}

}  // namespace
}  // namespace poem::bench

int main(int argc, char** argv) {
  try {
    return poem::bench::parse_and_run(argc, argv);
  } catch (const poem::Interrupted&) {
    return 128 + poem::interrupt_signal();
  } catch (const poem::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpu_bench: {}\n", error.what());
    return 1;
  }
}

// poem mine: posterior and selection for features from any network.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "cli/commands.h"
#include "cli/numbers.h"
#include "core/interrupts.h"
#include "core/npy.h"
#include "core/output_files.h"
#include "core/text.h"
#include "core/text_table.h"
#include "poem/error.h"
#include "poem/mine_features.h"

namespace poem {
namespace {

struct Options {
  std::string id, outliers, pool, out, posterior, probabilities;
  int64_t select = 0;
  uint64_t seed = 0;
  std::string noise = "iid";
  PosteriorSettings settings;
  bool force = false;
};

void write(const Options& options, const MinedFeatures& mined, const at::Tensor& chosen, OutputFiles& files) {
  files.write(options.out, [&](const std::string& staged) { write_npy(staged, chosen); });
  if (!options.posterior.empty()) {
    files.write(options.posterior, [&](const std::string& staged) {
      write_npz(staged, {{"mean", mined.posterior.mean()},
                         {"covariance", mined.posterior.covariance()},
                         {"weights", mined.weights}});
    });
  }
  if (!options.probabilities.empty()) {
    files.write(options.probabilities,
                [&](const std::string& staged) { write_npy(staged, mined.logits.sigmoid()); });
  }
  files.commit();
}

TextTable::Row table_row(const char* what, const at::Tensor& logits) {
  return {{{what},
           {fmt::to_string(logits.numel())},
           {fmt::format("{:.4f}", logits.abs().to(at::kDouble).mean().item<double>())},
           {fmt::format("{:.4f}", logits.sigmoid().to(at::kDouble).mean().item<double>())}}};
}

// The extension is the only sign of the file format.
void check_ending(const std::string& path, const std::string& ending) {
  if (path.empty() || std::filesystem::path(path).extension() == ending) return;
  throw Error(path, "would be written in the format " + ending, "call it NAME" + ending);
}

void check_no_input(const Options& options, const std::string& path) {
  for (const std::string& input : {options.id, options.outliers, options.pool}) {
    std::error_code neither_exists;
    if (std::filesystem::equivalent(path, input, neither_exists))
      throw Error(path, "is an input file and would be replaced", "choose another name");
  }
}

// Errors about the features name these files.
MinedFeatures mine(const Options& options, const at::Tensor& id, const at::Tensor& outliers,
                   const at::Tensor& pool) {
  PosteriorSettings settings = options.settings;
  settings.target_noise = options.noise == "iid" ? TargetNoise::kIid : TargetNoise::kSingle;
  try {
    return mine_features(id, outliers, pool, options.select, options.seed, settings);
  } catch (const Error& e) {
    throw e.within(listed({options.id, options.outliers, options.pool}));
  }
}

void run(const Options& options) {
  catch_interrupts();
  check_ending(options.out, ".npy");
  check_ending(options.posterior, ".npz");
  check_ending(options.probabilities, ".npy");
  for (const std::string& path : {options.out, options.posterior, options.probabilities})
    check_no_input(options, path);
  OutputFiles files({options.out, options.posterior, options.probabilities}, options.force);
  const at::Tensor id = read_features(options.id), outliers = read_features(options.outliers, id.size(1)),
                   pool = read_features(options.pool, id.size(1));
  stop_if_interrupted();
  if (options.select > pool.size(0)) {
    throw Error("--select",
                fmt::format("is {}, but {} has {} rows", options.select, options.pool, pool.size(0)),
                "choose fewer, or give a larger pool");
  }
  const MinedFeatures mined = mine(options, id, outliers, pool);
  stop_if_interrupted();
  const at::Tensor chosen = at::tensor(mined.chosen, at::kLong);
  write(options, mined, chosen, files);
  fmt::print("{} features; posterior of {} ID and {} outlier rows\n", id.size(1), id.size(0),
             outliers.size(0));
  const TextTable table{
      {"", "rows", "mean |w.phi|", "mean p(outlier)"},
      1,
      {table_row("mined", mined.logits.index_select(0, chosen)), table_row("pool", mined.logits)}};
  fmt::print("{}", to_text(table, terminal(STDOUT_FILENO)));
}

void add_posterior_options(CLI::App& command, Options& options) {
  PosteriorSettings& settings = options.settings;
  const auto add = [&](const char* name, double& value, const char* help, const CLI::Validator& allowed) {
    command.add_option(name, value, help)->check(allowed)->capture_default_str()->type_name("X");
  };
  add("--prior-variance", settings.prior_variance, "Prior variance of each weight", number(1e-12, 1e12));
  add("--noise-variance", settings.noise_variance, "Variance of the target logits", number(1e-12, 1e12));
  add("--scale", settings.scale, "Multiplies the covariance", number(1e-12, 1e12));
  add("--target", settings.target, "Target logit: + for outliers, - for ID", number(1e-6, 100));
  command
      .add_option("--noise", options.noise, "Target noise: one draw per row (iid), or one for all (single)")
      ->check(CLI::IsMember({"iid", "single"}))
      ->capture_default_str()
      ->type_name("KIND");
}

}  // namespace

void add_mine(CLI::App& app) {
  auto options = std::make_shared<Options>();
  auto* command = app.add_subcommand("mine", "Choose the outliers near the boundary, from files of features");
  command->add_option("--id", options->id, "Features of ID inputs")->required()->type_name("F.npy");
  command->add_option("--outliers", options->outliers, "Features of known outliers")
      ->required()
      ->type_name("F.npy");
  command->add_option("--pool", options->pool, "Features to choose from")->required()->type_name("F.npy");
  command->add_option("--select", options->select, "How many to choose")
      ->required()
      ->check(whole(1))
      ->type_name("N");
  command->add_option("--seed", options->seed, "Seed of the draw and of the target noise")
      ->required()
      ->check(whole(0))
      ->type_name("S");
  command
      ->add_option("--out", options->out, "The chosen rows of the pool (int64), nearest the boundary first")
      ->required()
      ->type_name("IDX.npy");
  command->add_option("--posterior", options->posterior, "Also write mean, covariance and weights (the draw)")
      ->type_name("POST.npz");
  command
      ->add_option("--probabilities", options->probabilities, "Also write p(outlier) of each row of the pool")
      ->type_name("P.npy");
  add_posterior_options(*command, *options);
  command->add_flag("--force", options->force, "Replace outputs that exist");
  command->footer(
      "Features are arrays of floats (rows x features) from any network's penultimate layer; all have the\n"
      "same width. An .npz file has them in the array 'features', as poem features writes it. A draw w of "
      "the\n"
      "posterior ranks the pool by -|w.phi|; ties are broken by row.\n"
      "Example:\n"
      "  poem mine --id id.npy --outliers out.npy --pool pool.npy --select 50000 --seed 1 --out idx.npy");
  command->callback([options] { run(*options); });
}

}  // namespace poem

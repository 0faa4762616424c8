// poem data check: duplicates, class balance, sizes and unreadable files of image sets.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands.h"
#include "core/file.h"
#include "core/interrupts.h"
#include "core/json_text.h"
#include "core/named_path.h"
#include "core/output_files.h"
#include "core/text.h"
#include "core/text_table.h"
#include "images/duplicates.h"
#include "poem/config.h"
#include "poem/error.h"
#include "readers/source.h"
#include "readers/survey.h"
#include "report/duplicates_page.h"
#include "train/data.h"

namespace poem {
namespace {

using nlohmann::ordered_json;

constexpr size_t kMostPairs = 100;  // of each kind, on the page
constexpr size_t kMostNamed = 5;    // on the terminal

struct Options {
  std::vector<std::string> sources, set;
  std::string sheet;
  bool json = false, force = false;
};

bool is_config(const std::string& path) { return std::filesystem::path(path).extension() == ".yaml"; }

// The sets that a training with this config reads.
std::vector<NamedPath> config_sources(const Config& config) {
  check_sources(config);
  std::vector<NamedPath> sources = {{"train", config.data.train}};
  if (!config.data.test.empty()) {
    sources.push_back({"test", config.data.test});
    for (const auto& [name, source] : named_paths("data.ood", config.data.ood))
      sources.push_back({"ood " + name, source});
  }
  if (config.mining.miner == "none") return sources;
  for (size_t i = 0; i < config.data.outliers.size(); ++i)
    sources.push_back({i == 0 ? "outliers" : fmt::format("outliers {}", i + 1),
                       split_share(config.data.outliers[i], config.data.folder).text});
  return sources;
}

// NAME=SOURCE, or a source that is its own name.
std::vector<NamedPath> given_sources(const std::vector<std::string>& texts) {
  std::vector<NamedPath> sources;
  for (const std::string& text : texts) {
    const bool named = text.find('=') < text.find('#');  // photos#count=9 has no name
    sources.push_back(named ? named_paths("source", {text}).front() : NamedPath{text, text});
    const auto same = [&](const NamedPath& other) { return other.name == sources.back().name; };
    if (std::any_of(sources.begin(), sources.end() - 1, same))
      throw Error("source", fmt::format("the name '{}' is given twice", sources.back().name),
                  "give each set its own name");
  }
  return sources;
}

std::vector<Survey> survey_all(const Options& options) {
  std::string folder;
  std::vector<NamedPath> sources;
  if (options.sources.size() == 1 && is_config(options.sources[0])) {
    const Config config = read_config(options.sources[0], options.set, "--set");
    folder = config.data.folder;
    sources = config_sources(config);
  } else {
    if (!options.set.empty()) throw Error("--set", "is for a config", "name a config, or leave it out");
    sources = given_sources(options.sources);
    for (const auto& [name, source] : sources) check_source(source);
  }
  std::vector<Survey> sets;
  for (const auto& [name, source] : sources) sets.push_back(survey(name, source, folder));
  return sets;
}

Duplicates compare(std::vector<Survey>& sets) {
  std::vector<MarkedSet> marked;
  for (Survey& set : sets) marked.push_back({std::move(set.marks), set.labels.labels});
  const Duplicates found = find_duplicates(marked, kMostPairs);
  for (size_t i = 0; i < sets.size(); ++i) sets[i].marks = std::move(marked[i].marks);
  return found;
}

// The number of images of each class; empty without labels.
std::vector<int64_t> class_counts(const Survey& set) {
  if (!set.labels.labels.defined()) return {};
  std::vector<int64_t> counts(set.labels.class_names.size());
  const auto* label = set.labels.labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < set.count(); ++i) ++counts[static_cast<size_t>(label[i])];
  return counts;
}

std::string size_text(const Survey& set) {
  const auto text = [](const auto& size) { return fmt::format("{}×{}", size.first[1], size.first[2]); };
  if (set.sizes.empty()) return "-";
  if (set.sizes.size() == 1) return text(*set.sizes.begin());
  const auto [least, most] = std::minmax_element(
      set.sizes.begin(), set.sizes.end(),
      [](const auto& a, const auto& b) { return a.first[1] * a.first[2] < b.first[1] * b.first[2]; });
  return fmt::format("{} sizes, {} to {}", set.sizes.size(), text(*least), text(*most));
}

TextTable table_of_sets(const std::vector<Survey>& sets, const Duplicates& found) {
  TextTable table{
      {"set", "images", "different", "height×width", "classes", "smallest", "largest", "unreadable"}, 1, {}};
  for (size_t i = 0; i < sets.size(); ++i) {
    const Survey& set = sets[i];
    const std::vector<int64_t> counts = class_counts(set);
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    const auto class_text = [&](auto count) {
      return count == counts.end()
                 ? "-"
                 : fmt::format("{} ({})", *count,
                               set.labels.class_names[static_cast<size_t>(count - counts.begin())]);
    };
    table.rows.push_back({{{printable(set.name)},
                           {fmt::to_string(set.count())},
                           {fmt::to_string(found.different[i])},
                           {size_text(set)},
                           {counts.empty() ? "-" : fmt::to_string(counts.size())},
                           {class_text(least)},
                           {class_text(most)},
                           {fmt::to_string(set.unreadable.size())}}});
  }
  return table;
}

// "a.png = b.png", of the pair that is most alike.
std::string example(const std::vector<Survey>& sets, const Overlap& overlap, bool turned) {
  const bool exact = !overlap.exact.pairs.empty();
  const DuplicatePair& pair = (exact ? overlap.exact : overlap.near).pairs.front();
  std::string first = sets[overlap.set].title(pair.image), second = sets[overlap.other].title(pair.twin);
  if (turned) std::swap(first, second);
  return printable(fmt::format("{} {} {}", first, exact ? "=" : "~", second));
}

TextTable table_of_duplicates(const std::vector<Survey>& sets, const Duplicates& found) {
  TextTable table{{"set", "also in", "example", "exact", "near"}, 3, {}};
  for (const Overlap& overlap : found.overlaps) {
    const std::string set = printable(sets[overlap.set].name), other = printable(sets[overlap.other].name);
    const bool inside = overlap.set == overlap.other;
    table.rows.push_back({{{set},
                           {inside ? "itself" : other},
                           {example(sets, overlap, /*turned=*/false)},
                           {fmt::to_string(overlap.exact.images)},
                           {fmt::to_string(overlap.near.images)}}});
    if (inside) continue;
    table.rows.push_back({{{other},
                           {set},
                           {example(sets, overlap, /*turned=*/true)},
                           {fmt::to_string(overlap.exact.others)},
                           {fmt::to_string(overlap.near.others)}}});
  }
  return table;
}

void print_relabelled(const std::vector<Survey>& sets, const Duplicates& found) {
  for (const Overlap& overlap : found.overlaps) {
    if (overlap.relabelled.images == 0) continue;
    const Survey& set = sets[overlap.set];
    const DuplicatePair& pair = overlap.relabelled.pairs.front();
    const auto labelled = [&](int64_t image) {
      return fmt::format("{} ({})", set.title(image), set.class_name(image));
    };
    fmt::print("{}\n", printable(fmt::format(
                           "{}: {} images have a duplicate with another label, such as {} and {}", set.name,
                           overlap.relabelled.images, labelled(pair.image), labelled(pair.twin))));
  }
}

void print_unreadable(const std::vector<Survey>& sets) {
  for (const Survey& set : sets) {
    for (size_t i = 0; i < std::min(kMostNamed, set.unreadable.size()); ++i)
      fmt::print("unreadable: {}\n",
                 printable(set.unreadable[i].where() + ": " + set.unreadable[i].problem()));
    if (set.unreadable.size() > kMostNamed)
      fmt::print("unreadable: {} others of {} (--json names all)\n", set.unreadable.size() - kMostNamed,
                 set.name);
  }
}

void print(const std::vector<Survey>& sets, const Duplicates& found) {
  const Terminal out = terminal(STDOUT_FILENO);
  fmt::print("{}", to_text(table_of_sets(sets, found), out));
  if (found.overlaps.empty())
    fmt::print("no duplicates\n");
  else
    fmt::print("\n{}", to_text(table_of_duplicates(sets, found), out));
  print_relabelled(sets, found);
  print_unreadable(sets);
}

ordered_json to_json(const Survey& set, int64_t different) {
  ordered_json sizes = ordered_json::array(), unreadable = ordered_json::array();
  for (const auto& [size, count] : set.sizes)
    sizes.push_back({{"channels", size[0]}, {"height", size[1]}, {"width", size[2]}, {"images", count}});
  for (const Error& problem : set.unreadable)
    unreadable.push_back({{"path", problem.where()}, {"reason", problem.problem()}});
  ordered_json json = {{"name", set.name},         {"source", set.source}, {"images", set.count()},
                       {"different", different},   {"sizes", sizes},       {"classes", nullptr},
                       {"unreadable", unreadable}, {"drawn_of", nullptr}};
  if (set.drawn_of > 0) json["drawn_of"] = set.drawn_of;
  const std::vector<int64_t> counts = class_counts(set);
  for (size_t i = 0; i < counts.size(); ++i) json["classes"][set.labels.class_names[i]] = counts[i];
  return json;
}

ordered_json to_json(const Survey& set, const Survey& other, const Twins& twins) {
  ordered_json pairs = ordered_json::array();
  for (const DuplicatePair& pair : twins.pairs)
    pairs.push_back({set.title(pair.image), other.title(pair.twin), pair.likeness});
  return {{"images", twins.images}, {"others", twins.others}, {"pairs", pairs}};
}

std::string json_of(const std::vector<Survey>& sets, const Duplicates& found) {
  ordered_json json = {{"sets", ordered_json::array()}, {"duplicates", ordered_json::array()}};
  for (size_t i = 0; i < sets.size(); ++i) json["sets"].push_back(to_json(sets[i], found.different[i]));
  for (const Overlap& overlap : found.overlaps) {
    const Survey &set = sets[overlap.set], &other = sets[overlap.other];
    json["duplicates"].push_back({{"set", set.name},
                                  {"other", other.name},
                                  {"exact", to_json(set, other, overlap.exact)},
                                  {"near", to_json(set, other, overlap.near)},
                                  {"relabelled", to_json(set, other, overlap.relabelled)}});
  }
  return json_text(json, 2) + "\n";
}

// What somebody should act on. Duplicates inside a set with one label do no harm.
void complain(const std::vector<Survey>& sets, const Duplicates& found) {
  std::vector<std::string> complaints;
  std::vector<std::string> overlapping;
  int64_t relabelled = 0;
  size_t unreadable = 0;
  for (const Overlap& overlap : found.overlaps) {
    relabelled += overlap.relabelled.images;
    if (overlap.set != overlap.other)
      overlapping.push_back(sets[overlap.set].name + " with " + sets[overlap.other].name);
  }
  for (const Survey& set : sets) unreadable += set.unreadable.size();
  if (!overlapping.empty()) complaints.push_back("images in common (" + listed(overlapping) + ")");
  if (relabelled > 0) complaints.push_back(fmt::format("{} duplicates with different labels", relabelled));
  if (unreadable > 0)
    complaints.push_back(fmt::format("{} unreadable file{}", unreadable, unreadable == 1 ? "" : "s"));
  if (!complaints.empty()) throw Incomplete("found " + listed(complaints));
}

void run(const Options& options) {
  catch_interrupts();
  OutputFiles files({options.sheet}, options.force);
  std::vector<Survey> sets = survey_all(options);
  for (const Survey& set : sets) {
    if (set.drawn_of > 0)
      spdlog::info("{}: checked the first {} of {} images that poem draws", set.name, set.count(),
                   set.drawn_of);
  }
  const Duplicates found = compare(sets);
  if (!options.sheet.empty())
    files.write(options.sheet,
                [&](const std::string& staged) { write_file(staged, duplicates_page(sets, found)); });
  files.commit();
  if (options.json)
    fmt::print("{}", json_of(sets, found));
  else
    print(sets, found);
  complain(sets, found);
}

}  // namespace

void add_data_check(CLI::App& data) {
  auto options = std::make_shared<Options>();
  auto* command = data.add_subcommand(
      "check",
      "Find duplicates in and between image sets, unreadable files, and how balanced the classes are");
  command
      ->add_option(
          "source", options->sources,
          "A config, to check all sets of its training; or sources of images, each SOURCE or NAME=SOURCE")
      ->required();
  add_set(*command, options->set);
  command->add_flag("--json", options->json, "Print JSON, with all sizes, classes and unreadable files");
  command->add_option("--sheet", options->sheet, "Also write a page with the duplicates, in pairs")
      ->type_name("F.html");
  command->add_flag("--force", options->force, "Replace an existing page");
  command->footer(
      "exact: images with the same pixels. near: images that were compressed again, resized, made\n"
      "brighter or darker, or moved a little. Both count the images of a set that have such a twin in\n"
      "the other set. The exit code is 3 if two sets have images in common, if duplicates have\n"
      "different labels, or if files cannot be read.\n"
      "Examples:\n"
      "  poem data check my-images.yaml\n"
      "  poem data check my-images.yaml --sheet pairs.html --set data.test=photos/new\n"
      "  poem data check photos/train pool=pool.poem 'svhn=test_32x32.mat#count=1000' --json");
  command->callback([options] { run(*options); });
}

}  // namespace poem

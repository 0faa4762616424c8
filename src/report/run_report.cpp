#include "report/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/file.h"
#include "core/output_files.h"
#include "core/progress.h"
#include "core/text.h"
#include "poem/error.h"
#include "report/epoch_plot.h"
#include "report/html.h"
#include "report/page.h"
#include "report/words.h"
#include "train/run_folder.h"

namespace poem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

double share_from(const std::vector<float>& ascending, double threshold) {
  const auto first = std::lower_bound(ascending.begin(), ascending.end(), threshold);
  return static_cast<double>(ascending.end() - first) / static_cast<double>(ascending.size());
}

std::string words_on_sets(const std::vector<std::pair<std::string, double>>& rejected) {
  double mean = 0;
  for (const auto& [name, share] : rejected) mean += share / static_cast<double>(rejected.size());
  std::string text = percent_text(mean) + " of the OOD images";
  if (rejected.size() == 1) return text + fmt::format(" ({})", rejected[0].first);
  const auto worst = std::min_element(rejected.begin(), rejected.end(),
                                      [](const auto& a, const auto& b) { return a.second < b.second; });
  return text + fmt::format(", the mean over {} sets; worst on {}, of which it rejects {}", rejected.size(),
                            worst->first, percent_text(worst->second));
}

// What the detector does at its threshold or, if the scores are unknown, when it keeps 95 % of the ID images.
std::string words_on_results(const RunData& run) {
  std::vector<std::pair<std::string, double>> rejected;
  std::string text;
  if (run.threshold && !run.scores.empty()) {
    for (size_t i = 1; i < run.scores.size(); ++i)
      rejected.emplace_back(run.scores[i].name, 1 - share_from(run.scores[i].scores, *run.threshold));
    text =
        fmt::format("At its threshold the detector keeps {} of the ID test images and rejects {}.",
                    percent_text(share_from(run.scores[0].scores, *run.threshold)), words_on_sets(rejected));
    if (run.calibration) {
      const KeptShare kept = kept_share(*run.calibration);
      text += fmt::format(
          " The threshold rests on {}: of new ID images it keeps {} to {}, with a confidence of {}.",
          counted(run.calibration->images, "held-out image"), percent_text(kept.low), percent_text(kept.high),
          percent_text(0.95, 0));
    }
  } else {
    for (const SetResult& set : run.results->sets) rejected.emplace_back(set.name, 1 - set.metrics.fpr95);
    text =
        fmt::format("{} a threshold that keeps {} of the ID test images, the detector rejects {}.",
                    run.results_epoch > 0 ? fmt::format("After epoch {}, with", run.results_epoch) : "With",
                    percent_text(0.95, 0), words_on_sets(rejected));
  }
  if (run.results->id_accuracy) {
    text += fmt::format(" It names the right class of {} of the ID images.",
                        percent_text(*run.results->id_accuracy));
  }
  if (run.results->mean.auroc <= 0.5) text += " Its scores separate ID from OOD no better than chance.";
  return text;
}

// A figure that every epoch may have, by its JSON pointer.
struct Curve {
  const char *label, *pointer;
  double factor = 1;
};
using Curves = std::vector<Curve>;

void add_curves(json& grid, const RunData& run, const char* title, const json& y_axis, const Curves& curves) {
  std::vector<EpochSeries> series;
  for (const auto& [label, pointer, factor] : curves)
    series.push_back({label, run.epoch_numbers(), run.by_epoch(pointer, factor)});
  add_epoch_plot(grid["pieces"], title, y_axis, series);
}

json new_grid() { return {{"kind", "grid"}, {"pieces", json::array()}}; }

void draw_grid(Page& page, const char* title, const json& grid) {
  if (grid["pieces"].empty()) return;
  page.section(title);
  page.draw(grid);
}

// One row per set, and one for their mean.
std::string results_table(const RunData& run) {
  const Results& results = *run.results;
  Table table{fmt::format("Figures on the test sets{}, in percent",
                          run.results_epoch > 0 ? fmt::format(" after epoch {}", run.results_epoch) : ""),
              {{"set", true},
               {"FPR95"},
               {"AUROC"},
               {"AUPR-in"},
               {"AUPR-out"},
               {"detection error"},
               {"ID images"},
               {"OOD images"}},
              {}};
  const auto add = [&](const std::string& name, const OodMetrics& m, const std::string& id,
                       const std::string& ood) {
    table.rows.push_back({name, in_percent(m.fpr95), in_percent(m.auroc), in_percent(m.aupr_in),
                          in_percent(m.aupr_out), in_percent(m.detection_error), id, ood});
  };
  for (const auto& [name, m] : results.sets)
    add(name, m, std::to_string(m.id_count), std::to_string(m.ood_count));
  add("mean", results.mean, "", "");
  std::string html = html_table(table);
  if (results.id_accuracy)
    html += html_paragraph(fmt::format("ID accuracy {}.", percent_text(*results.id_accuracy, 2)));
  return html;
}

std::string classes_table(const Confusion& confusion) {
  Table table{"ID test images by class, the lowest accuracy first",
              {{"class", true}, {"images"}, {"accuracy in percent"}, {"most often mistaken for", true}},
              {}};
  for (const size_t label : confusion.worst_first()) {
    const auto other = confusion.mistaken_for(label);
    table.rows.push_back(
        {confusion.class_names[label], std::to_string(confusion.count(label)),
         in_percent(*confusion.accuracy(label)),
         other ? fmt::format("{} ({})", confusion.class_names[*other], confusion.images[label][*other])
               : "–"});
  }
  return html_table(table);
}

// Rows are the classes of the images, columns the classes that the detector names.
std::string confusion_table(const Confusion& confusion) {
  Table table{
      "Confusion matrix: images of each class (row) by predicted class (column)", {{"class", true}}, {}};
  for (size_t i = 0; i < confusion.class_names.size(); ++i) {
    table.columns.push_back({confusion.class_names[i]});
    table.rows.push_back({confusion.class_names[i]});
    for (const int64_t count : confusion.images[i]) table.rows[i].push_back(std::to_string(count));
    table.strong.push_back({i, i + 1});
  }
  return html_table(table);
}

void add_classes(Page& page, const RunData& run) {
  constexpr size_t kMost = 30;  // a larger matrix is not readable on a page; results.json contains it
  if (!run.results || !run.results->confusion) return;
  const Confusion& confusion = *run.results->confusion;
  std::string html = classes_table(confusion);
  if (confusion.class_names.size() <= kMost) html += confusion_table(confusion);
  page.details("Accuracy by class", html);
}

void add_verdict(Page& page, const RunData& run) {
  page.section("Verdict");
  page.add(html_paragraph(verdict(run), "verdict"));
  page.add(html_notes(run.notes));
  if (run.results) page.add(results_table(run));
  add_classes(page, run);
}

void add_scores(Page& page, const RunData& run) {
  if (run.scores.empty()) return;
  json piece = {{"kind", "threshold"}, {"score", run.setting("score")}, {"sets", json::array()}};
  piece["threshold"] = run.threshold ? json(*run.threshold) : json(nullptr);
  for (const NamedScores& set : run.scores) {
    json entry = {{"name", set.name}};
    entry["scores"] = packed(set.scores);
    piece["sets"].push_back(std::move(entry));
  }
  page.section("Scores and threshold");
  page.draw(piece);
}

// Without outliers L_reg is 0 in every epoch, and the loss is the classification loss alone.
bool is_regularised(const RunData& run) {
  const std::vector<double> values = run.by_epoch("/regularisation");
  return std::any_of(values.begin(), values.end(), [](double v) { return std::isfinite(v) && v != 0; });
}

void add_training(Page& page, const RunData& run) {
  json grid = new_grid();
  Curves losses = {{"total", "/loss"}};
  if (is_regularised(run)) losses.push_back({"classification", "/classification_loss"});
  add_curves(grid, run, "Loss", {{"label", "loss"}}, losses);
  if (is_regularised(run)) {
    add_curves(grid, run, "Regularisation, before its weight β", {{"label", "L_reg"}},
               {{"regularisation", "/regularisation"}});
  }
  add_curves(grid, run, "Energy while training", {{"label", "E(x)"}},
             {{"ID images", "/id_energy"}, {"mined outliers", "/outlier_energy"}});
  add_curves(grid, run, "Accuracy", share_axis("accuracy"),
             {{"training", "/train_accuracy"},
              {"validation", "/validation_accuracy"},
              {"ID test", "/results/id_accuracy"}});
  add_curves(grid, run, "Mean FPR95 and AUROC", share_axis(""),
             {{"FPR95", "/results/mean/fpr95"}, {"AUROC", "/results/mean/auroc"}});
  add_curves(grid, run, "Learning rate", {{"label", "learning rate"}}, {{"learning rate", "/learning_rate"}});
  draw_grid(page, "Training", grid);
}

// The classes of one epoch's mined set as bars.
json class_bars(const json& classes, const std::string& title) {
  json names = json::array(), pool = json::array(), mined = json::array();
  for (const json& entry : classes) {
    if (!entry.is_object()) continue;
    const auto number = [&](const char* key) {
      return entry.contains(key) && entry[key].is_number() ? entry[key] : json();
    };
    names.push_back(entry.contains("name") && entry["name"].is_string() ? entry["name"] : json("?"));
    pool.push_back(number("pool"));
    mined.push_back(number("mined"));
  }
  json piece = {{"kind", "bars"}, {"title", title}, {"names", names}};
  piece["x"] = share_axis("share");
  piece["series"] = {{{"label", "mined set"}, {"values", mined}}, {{"label", "pool"}, {"values", pool}}};
  return piece;
}

// The classes of every epoch that has them. The script lets the reader step through them.
json composition(const RunData& run) {
  const auto place = "/mining/classes"_json_pointer;
  json frames = json::array();
  for (const json& line : run.epochs) {
    if (!line.contains(place) || !line[place].is_array()) continue;
    const std::string epoch = "epoch " + line["epoch"].dump();
    frames.push_back({{"title", epoch},
                      {"piece", class_bars(line[place], "Most mined classes of the outliers, " + epoch)}});
  }
  return frames;
}

// The share of every source in the mined set; the legend tells its share of the pool.
void add_sources(json& grid, const RunData& run) {
  std::vector<EpochSeries> series;
  for (const json& line : run.epochs) {
    const auto place = "/mining/sources"_json_pointer;
    if (!line.contains(place) || !line[place].is_array()) continue;
    for (size_t i = series.size(); i < line[place].size(); ++i) {
      const json& source = line[place][i];
      if (!source.is_object() || !source.contains("name") || !source["name"].is_string()) return;
      const std::string at = fmt::format("/mining/sources/{}/", i);
      const std::vector<double> pool = run.by_epoch(at + "pool");
      const auto known = std::find_if(pool.begin(), pool.end(), [](double x) { return std::isfinite(x); });
      std::string label = source["name"];
      if (known != pool.end()) label += fmt::format(" (pool {})", percent_text(*known));
      series.push_back({label, run.epoch_numbers(), run.by_epoch(at + "mined")});
    }
  }
  add_epoch_plot(grid["pieces"], "Sources of the mined set", share_axis("share of the mined set"), series);
}

void add_mining(Page& page, const RunData& run) {
  json grid = new_grid();
  add_curves(grid, run, "Boundary score, 0 at the boundary", boundary_axis(),
             {{"mined set", "/mining/mined_abs_logit", -1}, {"pool", "/mining/pool_abs_logit", -1}});
  add_curves(grid, run, "Probability of being an outlier, by the draw", share_axis("mean sigmoid(wᵀφ)"),
             {{"mined set", "/mining/mined_p_outlier"}, {"pool", "/mining/pool_p_outlier"}});
  add_curves(
      grid, run, "Overlap of mined sets", share_axis("share"),
      {{"with a second draw", "/mining/draw_overlap"}, {"with the previous epoch", "/mining/last_overlap"}});
  add_curves(grid, run, "Best outliers that the first stage found", share_axis("share"),
             {{"among the candidates", "/mining/recall"}});
  add_curves(grid, run, "Spread of wᵀφ over draws", {{"label", "standard deviation"}, {"low", 0}},
             {{"pool", "/mining/spread"}});
  add_curves(grid, run, "Length of the features", {{"label", "mean ‖φ‖"}, {"low", 0}},
             {{"mined set", "/mining/mined_length"}, {"pool", "/mining/pool_length"}});
  add_curves(grid, run, "Clusters of similar outliers", {{"label", "effective number"}, {"low", 0}},
             {{"mined set", "/mining/mined_clusters"}, {"pool", "/mining/pool_clusters"}});
  add_curves(grid, run, "Distinct images in the mined set", {{"label", "images"}, {"low", 0}},
             {{"images", "/mining/distinct_images"}});
  add_sources(grid, run);
  draw_grid(page, "Mining", grid);
  const json frames = composition(run);
  if (frames.empty()) return;
  if (grid["pieces"].empty()) page.section("Mining");
  page.draw({{"kind", "frames"},
             {"label", "Epoch of the classes"},
             {"frames", frames},
             {"first", frames.size() - 1}});
}

// The lines of text under each tile.
json captions(const Sheet& sheet) {
  json tiles = json::array();
  for (const json& tile : sheet.list["tiles"]) {
    const auto text = [&](const char* key) {
      return tile.is_object() && tile.contains(key) && tile[key].is_string() ? tile[key].get<std::string>()
                                                                             : "";
    };
    std::vector<std::string> lines;
    if (const std::string set = text("set"); !set.empty() && set != "id") lines.push_back(set);
    if (const std::string source = text("source"); !source.empty()) lines.push_back(source);
    if (const std::string name = text("class"); !name.empty()) lines.push_back(name);
    if (const std::string guess = text("predicted"); !guess.empty()) lines.push_back("→ " + guess);
    if (tile.is_object() && tile.contains("score") && tile["score"].is_number())
      lines.push_back(fmt::format("{:.3g}", tile["score"].get<double>()));
    if (const std::string name = text("name"); !name.empty()) lines.push_back(name);
    tiles.push_back(lines);
  }
  return tiles;
}

json gallery(const Sheet& sheet, const std::string& title, const std::string& remark) {
  json piece = {{"kind", "gallery"}, {"title", title}, {"remark", remark}, {"src", picture_uri(sheet.png)}};
  piece["tile"] = sheet.list["tile"];
  piece["columns"] = sheet.list["columns"];
  piece["tiles"] = captions(sheet);
  return piece;
}

struct Kind {
  const char *name, *tab, *remark;
};
constexpr Kind kTestSheets[] = {
    {"ood-as-id", "OOD taken for ID",
     "OOD images with the highest scores: set, predicted class, score and file."},
    {"id-as-ood", "ID taken for OOD",
     "ID images with the lowest scores: class, predicted class, score and file."},
    {"misclassified", "Wrong class", "ID images with a wrong predicted class, highest scores first."},
    {"near-threshold", "Nearest the threshold", "Images whose scores are closest to the threshold."}};

void add_gallery(Page& page, const RunData& run) {
  if (run.mined.empty() && run.test.empty()) return;
  page.section("Pictures");
  json frames = json::array();
  for (const Sheet& sheet : run.mined) {
    const std::string title = fmt::format("epoch {}", std::atoll(sheet.name.substr(6).c_str()));
    frames.push_back({{"title", title}, {"piece", gallery(sheet, "Mined outliers, " + title, "")}});
  }
  if (!frames.empty())
    page.draw({{"kind", "frames"},
               {"label", "Epoch of the mined outliers"},
               {"frames", frames},
               {"first", frames.size() - 1}});
  json tabs = json::array();
  for (const Kind& kind : kTestSheets) {
    for (const Sheet& sheet : run.test) {
      if (sheet.name == kind.name)
        tabs.push_back({{"title", kind.tab}, {"piece", gallery(sheet, kind.tab, kind.remark)}});
    }
  }
  if (!tabs.empty()) page.draw({{"kind", "tabs"}, {"label", "Test images"}, {"tabs", tabs}});
}

const Curves kPhases = {
    {"mining", "/seconds/mine"}, {"training", "/seconds/train"}, {"queue and posterior", "/seconds/queue"}};

double total(const RunData& run, const char* pointer) {
  double sum = 0;
  for (double value : run.by_epoch(pointer)) sum += std::isfinite(value) ? value : 0;
  return sum;
}

void add_time(Page& page, const RunData& run) {
  if (run.epochs.empty()) return;
  json bars = {{"kind", "bars"}, {"title", "Seconds per phase, whole run"}};
  json seconds = json::array();
  for (const Curve& phase : kPhases) {
    bars["names"].push_back(phase.label);
    seconds.push_back(total(run, phase.pointer));
  }
  bars["x"] = {{"label", "seconds"}};
  bars["series"] = {{{"label", "seconds"}, {"values", seconds}}};
  json grid = new_grid();
  grid["pieces"].push_back(bars);
  add_curves(grid, run, "Seconds per epoch", {{"label", "seconds"}, {"low", 0}}, kPhases);
  draw_grid(page, "Time", grid);
}

void add_setup(Page& page, const RunData& run) {
  page.section("Setup");
  std::vector<std::pair<std::string, std::string>> entries = {{"Run folder", run.folder}};
  for (const auto& [title, key] : {std::pair("Seed", "seed"),
                                   {"Network", "network.name"},
                                   {"Objective", "objective.name"},
                                   {"Miner", "mining.miner"},
                                   {"Score", "score"},
                                   {"ID images", "data.train"},
                                   {"Outliers", "data.outliers"}}) {
    if (const std::string value = run.setting(key); !value.empty()) entries.emplace_back(title, value);
  }
  if (run.threshold) {
    entries.emplace_back(
        "Threshold",
        fmt::format("{:.6g}", *run.threshold) +
            (run.calibration ? ", " + replaced(to_text(*run.calibration), " %", "\u00a0%") : ""));
  }
  entries.insert(entries.end(), run.surroundings.begin(), run.surroundings.end());
  page.add(html_list(entries));
  if (!run.config_text.empty())
    page.details("config.yaml", "<pre tabindex=\"0\">" + escape_html(run.config_text) + "</pre>\n");
}

bool is_report(const std::string& path) {
  const std::string text = read_file(path);
  return text.find("<meta name=\"generator\" content=\"poem ") < 1000;
}

}  // namespace

std::string verdict(const RunData& run) {
  const std::string state =
      run.finished() ? "" : fmt::format("The run is not finished: {}, no detector yet. ", run.progress());
  if (run.results) return state + words_on_results(run);
  const std::vector<double> accuracy = run.by_epoch("/validation_accuracy");
  std::string text = state + "There are no figures on test sets.";
  if (!accuracy.empty() && std::isfinite(accuracy.back())) {
    text += fmt::format(" It names the right class of {} of the held-out ID images.",
                        percent_text(accuracy.back()));
  }
  return text;
}

std::string run_report(const RunData& run) {
  const auto known = [&](const char* key) {
    const std::string value = run.setting(key);
    return value.empty() ? "?" : value;
  };
  double seconds = 0;
  for (const Curve& phase : kPhases) seconds += total(run, phase.pointer);
  Page page("Run " + run.name(),
            fmt::format("{} · {} · seed {} · {} in {}", known("mining.miner"), known("network.name"),
                        known("seed"), counted(run.epochs.size(), "epoch"), duration_text(seconds)),
            {"run.js"});
  add_verdict(page, run);
  add_scores(page, run);
  add_training(page, run);
  add_mining(page, run);
  add_gallery(page, run);
  add_time(page, run);
  add_setup(page, run);
  return page.html();
}

std::string report_path(const std::string& folder) { return RunFolder(folder).report; }

void write_run_report(const std::string& folder) {
  write_report(report_path(folder), run_report(read_run(folder)), /*force=*/true);
}

void write_report(const std::string& path, const std::string& page, bool force) {
  if (fs::is_regular_file(path) && !force && !is_report(path)) {
    throw Error(path, "exists already and is not a report of poem",
                "choose another name, or replace it with option force");
  }
  check_output_file(path, true);
  write_file(path, page);
}

}  // namespace poem

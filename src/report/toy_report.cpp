#include "report/toy_report.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/npy.h"
#include "report/html.h"
#include "report/page.h"
#include "report/panel_piece.h"
#include "report/plot.h"
#include "world/world.h"

namespace poem {
namespace {

constexpr int64_t kShownEpochs[] = {1, 4, 30};  // those of Figure 1
constexpr int64_t kShownPoints = 400;           // per set, in pictures of the whole data

std::vector<double> to_doubles(const at::Tensor& values) {
  const at::Tensor flat = values.to(at::kDouble).contiguous().view({-1});
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

Points scatter(const at::Tensor& points, Ink ink, const std::string& label) {
  return {to_doubles(points.select(1, 0)), to_doubles(points.select(1, 1)), ink, 1.3, label};
}

HeatMap heat_map(const at::Tensor& strength, Ink ink, const std::string& label, bool scale = false) {
  return {kToySide, kToySide, to_doubles(strength), ink, label, scale};
}

Panel plane(const std::string& title) {
  return {title, {"x", -kToyReach, kToyReach}, {"y", -kToyReach, kToyReach}, {}, {}, {}};
}

std::vector<double> id_density(const at::Tensor& points) {
  const auto x = to_doubles(points.select(1, 0)), y = to_doubles(points.select(1, 1));
  std::vector<double> density;
  for (size_t i = 0; i < x.size(); ++i) density.push_back(world_2d_density(x[i], y[i]));
  return density;
}

Panel epoch_panel(const Toy& toy, int64_t epoch, const std::string& title) {
  const ToyEpoch& e = toy.epochs[epoch - 1];
  const at::Tensor known = (e.grid_score >= e.threshold).to(at::kDouble);
  Panel panel = plane(title);
  panel.heat_maps.push_back(heat_map(known * 0.35, Ink::kGreen, "classified as ID"));
  panel.heat_maps.push_back(heat_map((1 - known) * 0.2, Ink::kOrange, "classified as OOD"));
  panel.points.push_back(scatter(e.mined, Ink::kOrange, "outliers"));
  return panel;
}

// Figure 1 of the paper.
Figure mining_figure(const Toy& toy) {
  Figure figure{
      "Posterior sampling-based outlier mining in two dimensions",
      "Five panels. The first shows that the maximum softmax of a network trained on ID points alone is "
      "high nearly everywhere. The second shows ID points and outliers. The others show the outliers mined "
      "in three epochs, over the region that is classified as ID after that epoch.",
      5,
      {},
      200,
      200};
  const at::Tensor id = toy.id.slice(0, 0, kShownPoints);
  Panel softmax = plane("(a) ID data only");
  softmax.heat_maps.push_back(
      heat_map((toy.max_softmax - 1. / 3) * 1.5, Ink::kBlue, "maximum softmax, 1/3 to 1", true));
  softmax.points.push_back(scatter(id, Ink::kGreen, "ID points"));
  Panel data = plane("(b) Sample space");
  data.points.push_back(scatter(toy.outliers.slice(0, 0, kShownPoints), Ink::kOrange, "outliers"));
  data.points.push_back(scatter(id, Ink::kGreen, "ID points"));
  figure.panels = {softmax, data};
  char letter = 'c';
  for (int64_t epoch : kShownEpochs) {
    if (epoch <= static_cast<int64_t>(toy.epochs.size()))
      figure.panels.push_back(epoch_panel(toy, epoch, fmt::format("({}) Epoch {}", letter++, epoch)));
  }
  return figure;
}

// A histogram as a curve whose area is 1.
Line density_line(const at::Tensor& values, double low, double high, Ink ink, const std::string& label) {
  constexpr int64_t kBins = 60;
  const double width = (high - low) / kBins;
  const at::Tensor counts = at::histc(values.to(at::kDouble), kBins, low, high);
  Line line{{}, to_doubles(counts / (static_cast<double>(values.numel()) * width)), ink, Dash::kSolid, label};
  for (int64_t i = 0; i < kBins; ++i) line.x.push_back(low + (static_cast<double>(i) + 0.5) * width);
  return line;
}

// Figure 2b of the paper: how the belief of the last epoch ranks the points.
Figure boundary_figure(const Toy& toy) {
  const ToyEpoch& last = toy.epochs.back();
  const at::Tensor all = at::cat({last.id_logit, last.outlier_logit});
  const double low = std::floor(all.min().item<double>()), high = std::ceil(all.max().item<double>()),
               reach = std::max(-low, high);
  Panel densities{"Density of the logit f", {"f(x)", low, high}, {"density", 0, 0}, {}, {}, {}};
  densities.lines = {density_line(last.id_logit, low, high, Ink::kGreen, "ID points"),
                     density_line(last.outlier_logit, low, high, Ink::kOrange, "outliers")};
  for (const Line& line : densities.lines)
    densities.y.high = std::max(densities.y.high, *std::max_element(line.y.begin(), line.y.end()));
  const auto scaled = [&](double f) { return densities.y.high * (1 - std::abs(f) / reach); };
  densities.lines.push_back({{low, 0, high},
                             {scaled(low), scaled(0), scaled(high)},
                             Ink::kText,
                             Dash::kDashed,
                             "boundary score −|f|, not to scale"});

  const at::Tensor shown = toy.outliers.slice(0, 0, 4 * kShownPoints);
  Panel scores{"Boundary score against density",
               {"density of ID at the outlier", 1e-12, 1, true},
               {"boundary score −|f(x)|", -reach, 0},
               {},
               {},
               {}};
  scores.points.push_back({id_density(shown),
                           to_doubles(-last.outlier_logit.slice(0, 0, 4 * kShownPoints).abs()), Ink::kOrange,
                           1.3, "outliers"});
  return {
      "Boundary score and density",
      "Left: the distribution of the posterior mean's logit over ID points and outliers; the boundary score "
      "is highest where they meet. Right: each outlier's boundary score against the ID density there.",
      2,
      {densities, scores},
      320,
      240};
}

double id_area(const ToyEpoch& epoch) {
  const double cell = 2 * kToyReach / static_cast<double>(kToySide);
  return cell * cell * (epoch.grid_score >= epoch.threshold).sum().item<double>();
}

// The epoch's panel for the page. Unlike the figure it also has ID points and lines.
nlohmann::json epoch_frame(const Toy& toy, int64_t epoch) {
  const ToyEpoch& e = toy.epochs[epoch - 1];
  Panel panel = epoch_panel(toy, epoch, fmt::format("Epoch {}", epoch));
  panel.points.insert(panel.points.begin(),
                      scatter(toy.id.slice(0, 0, kShownPoints), Ink::kGreen, "ID points"));
  panel.points.back().label = "mined outliers";
  const auto line = [&](const at::Tensor& field, double level, Ink ink, Dash dash, const char* label) {
    Line crossing = contour(to_doubles(field), kToySide, kToySide, level, panel.x, panel.y);
    crossing.ink = ink;
    crossing.dash = dash;
    crossing.label = label;
    panel.lines.push_back(crossing);
  };
  line(e.grid_score, e.threshold, Ink::kGreen, Dash::kSolid, "edge of the ID region");
  line(e.grid_logit, 0, Ink::kText, Dash::kDashed, "E[w]·φ(x) = 0 when mining");
  nlohmann::json piece = panel_piece(panel, true);
  piece["description"] = fmt::format(
      "Epoch {}: {} mined outliers, and the region that is classified as ID after it (area {:.1f} of {}).",
      epoch, e.mined.size(0), id_area(e), 4 * kToyReach * kToyReach);
  return {{"title", fmt::format("epoch {}, area of the ID region {:.1f}", epoch, id_area(e))},
          {"piece", piece}};
}

nlohmann::json panel_grid(const Figure& figure, bool square) {
  nlohmann::json grid = {{"kind", "grid"}, {"pieces", nlohmann::json::array()}};
  for (const Panel& panel : figure.panels) grid["pieces"].push_back(panel_piece(panel, square));
  return grid;
}

nlohmann::json area_plot(const Toy& toy) {
  std::vector<double> epochs, areas;
  for (const ToyEpoch& epoch : toy.epochs) {
    epochs.push_back(static_cast<double>(epochs.size() + 1));
    areas.push_back(id_area(epoch));
  }
  return {{"kind", "lines"},
          {"title", "Area that is classified as ID"},
          {"x", {{"label", "epoch"}, {"whole", true}}},
          {"y", {{"label", fmt::format("area of {}", 4 * kToyReach * kToyReach)}, {"low", 0}}},
          {"series", {{{"x", epochs}, {"y", areas}}}}};
}

std::string page(const Toy& toy) {
  Page page("Outlier mining in two dimensions",
            fmt::format("poem toy, seed {}: {} epochs, {} outliers mined in each", toy.config.seed,
                        toy.epochs.size(), toy.epochs.front().mined.size(0)),
            {"panel.js"});
  page.section("The paper's Figure 1");
  page.add(
      "<p>(a) A network trained on ID points alone is confident far away from all its training points. (b) "
      "The data. The other panels show the outliers that an epoch mined, over the region that the classifier "
      "calls ID after it: there &minus;E(x) is at least the threshold that keeps 95&nbsp;% of the held-out "
      "ID "
      "points.</p>\n");
  page.draw(panel_grid(mining_figure(toy), true));
  page.section("Every epoch");
  page.add(
      "<p>Press Play, or move the slider with the mouse or the arrow keys. An epoch mines outliers where "
      "w&middot;&phi;(x) &asymp; 0 for a draw of w around E[w]. The first epoch knows only the prior, whose "
      "mean is 0 everywhere.</p>\n");
  nlohmann::json frames = {
      {"kind", "frames"}, {"label", "Epoch"}, {"seconds", 0.5}, {"frames", nlohmann::json::array()}};
  for (size_t epoch = 1; epoch <= toy.epochs.size(); ++epoch) {
    frames["frames"].push_back(epoch_frame(toy, static_cast<int64_t>(epoch)));
  }
  page.draw({{"kind", "grid"}, {"pieces", {frames, area_plot(toy)}}});
  page.section("Boundary score and density (Figure 2b)");
  page.draw(panel_grid(boundary_figure(toy), false));
  page.section("How it was trained");
  page.details("toy.yaml", "<pre>" + escape_html(to_yaml(toy.config)) + "</pre>\n");
  return page.html();
}

std::string outlier_table(const Toy& toy) {
  const ToyEpoch& last = toy.epochs.back();
  const auto x = to_doubles(toy.outliers.select(1, 0)), y = to_doubles(toy.outliers.select(1, 1)),
             f = to_doubles(last.outlier_logit), density = id_density(toy.outliers);
  std::string csv = "x,y,logit,boundary_score,id_density\n";
  for (size_t i = 0; i < x.size(); ++i)
    csv += fmt::format("{:.6g},{:.6g},{:.6g},{:.6g},{:.6g}\n", x[i], y[i], f[i], -std::abs(f[i]), density[i]);
  return csv;
}

at::Tensor stacked(const Toy& toy, at::Tensor ToyEpoch::*field) {
  std::vector<at::Tensor> all;
  for (const ToyEpoch& epoch : toy.epochs) all.push_back(epoch.*field);
  return at::stack(all);
}

at::Tensor on_grid(const at::Tensor& values) {  // … × side² as … × rows × columns
  return values.unflatten(-1, {kToySide, kToySide});
}

std::string describe(const Toy& toy) {
  nlohmann::ordered_json json;
  json["seed"] = toy.config.seed;
  json["epochs"] = toy.epochs.size();
  json["shown_epochs"] = kShownEpochs;
  json["grid"] = {{"low", -kToyReach}, {"high", kToyReach}, {"side", kToySide}};
  for (const ToyEpoch& epoch : toy.epochs) json["thresholds"].push_back(epoch.threshold);
  return json.dump(2) + "\n";
}

}  // namespace

void write_toy(const Toy& toy, const std::string& folder) {
  const auto path = [&](const char* name) { return folder + "/" + name; };
  write_file(path(kToyMark), describe(toy));
  write_file(path("toy.yaml"), to_yaml(toy.config));
  write_npy(path("id.npy"), toy.id);
  write_npy(path("labels.npy"), toy.labels);
  write_npy(path("outliers.npy"), toy.outliers);
  write_npy(path("max_softmax.npy"), on_grid(toy.max_softmax));
  write_npy(path("mined.npy"), stacked(toy, &ToyEpoch::mined));
  write_npy(path("scores.npy"), on_grid(stacked(toy, &ToyEpoch::grid_score)));
  write_npy(path("logits.npy"), on_grid(stacked(toy, &ToyEpoch::grid_logit)));
  write_file(path("boundary.csv"), outlier_table(toy));
  write_file(path("mining.svg"), to_svg(mining_figure(toy)));
  write_file(path("boundary.svg"), to_svg(boundary_figure(toy)));
  write_file(path("report.html"), page(toy));
}

}  // namespace poem

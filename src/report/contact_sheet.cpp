#include "report/contact_sheet.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "images/resize.h"
#include "report/html.h"
#include "report/page.h"

namespace poem {
namespace {

constexpr size_t kMost = 400;
constexpr int64_t kLargestTile = 64;

}  // namespace

void ContactSheet::add(const Prediction& prediction, const at::Tensor& pixels) {
  const Verdict& verdict = prediction.verdict;
  if (!prediction.error.empty()) {
    errors_.push_back({prediction.path, prediction.error});
    return;
  }
  const Kind kind = verdict.known ? kKnown : verdict.unsure ? kUnsure : kUnknown;
  // NaN is the worst score, and must not be a key: nothing is ordered beside it.
  const float key = std::isnan(verdict.score) ? -std::numeric_limits<float>::infinity() : verdict.score;
  auto& tiles = tiles_[kind];
  ++counts_[kind];
  if (tiles.size() == kMost && key >= std::prev(tiles.end())->first) return;
  std::vector<std::string> caption = {detector_.word(verdict)};
  if (!verdict.known && verdict.label >= 0)
    caption[0] += fmt::format(" ({}?)", detector_.class_names[verdict.label]);
  caption.push_back(fmt::format("score {:.4g}", verdict.score));
  if (!std::isnan(verdict.p_value)) caption.push_back(fmt::format("p = {:.3g}", verdict.p_value));
  caption.push_back(prediction.path);
  tiles.emplace(key,
                Tile{fit(pixels.unsqueeze(0), std::min(kLargestTile, pixels.size(2)))[0].clone(), caption});
  if (tiles.size() > kMost) tiles.erase(std::prev(tiles.end()));
}

void ContactSheet::add_kind(Page& page, Kind kind, const std::string& title,
                            const std::string& remark) const {
  page.section(title);
  if (tiles_[kind].empty()) {
    page.add(html_paragraph("None."));
    return;
  }
  std::vector<Tile> tiles;
  for (const auto& [score, tile] : tiles_[kind]) tiles.push_back(tile);
  const std::string count = tiles.size() < static_cast<size_t>(counts_[kind])
                                ? fmt::format("{} of {} images", tiles.size(), counts_[kind])
                                : fmt::format("{} image{}", counts_[kind], counts_[kind] == 1 ? "" : "s");
  draw_tiles(page, count, remark, tiles);
}

std::string ContactSheet::html() const {
  Page page("Contact sheet",
            fmt::format("{} rejected, {}{} kept; score {}, threshold {:.6g}", counts_[kUnknown],
                        detector_.unsure ? fmt::format("{} unsure, ", counts_[kUnsure]) : "", counts_[kKnown],
                        detector_.score->name(), *detector_.threshold),
            {"run.js"});
  add_kind(page, kUnknown, "Rejected", "Images that the detector calls unknown, the strangest first.");
  if (detector_.unsure)
    add_kind(page, kUnsure, "Unsure", "Images between the two thresholds, the lowest scores first.");
  add_kind(page, kKnown, "Kept",
           "Images that the detector takes for one of its classes, the nearest to the threshold first.");
  if (!errors_.empty()) {
    page.section("Unreadable");
    page.add(html_table({"Images without a verdict", {{"path", true}, {"reason", true}}, errors_}));
  }
  return page.html();
}

}  // namespace poem

#include "report/duplicates_page.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <utility>

#include "report/html.h"
#include "report/page.h"
#include "report/tiles.h"

namespace poem {
namespace {

constexpr int64_t kTile = 64;

using Pictures = std::vector<std::map<int64_t, at::Tensor>>;  // by set and image

Pictures read_pictures(const std::vector<Survey>& sets, const Duplicates& found) {
  std::vector<std::set<int64_t>> wanted(sets.size());
  for (const Overlap& overlap : found.overlaps) {
    for (const Twins* twins : {&overlap.exact, &overlap.near, &overlap.relabelled}) {
      for (const DuplicatePair& pair : twins->pairs) {
        wanted[overlap.set].insert(pair.image);
        wanted[overlap.other].insert(pair.twin);
      }
    }
  }
  Pictures pictures;
  for (size_t i = 0; i < sets.size(); ++i)
    pictures.push_back(wanted[i].empty() ? Pictures::value_type() : pick_images(sets[i], wanted[i], kTile));
  return pictures;
}

Tile tile_of(const Survey& set, const std::map<int64_t, at::Tensor>& pictures, int64_t image) {
  at::Tensor pixels = pictures.at(image);
  if (pixels.size(0) != 3) pixels = pixels.narrow(0, 0, 1).expand({3, kTile, kTile});
  std::vector<std::string> caption = {fmt::format("{}: {}", set.name, set.title(image))};
  if (const std::string label = set.class_name(image); !label.empty()) caption.push_back(label);
  return {pixels, caption};
}

class DuplicatesPage {
 public:
  DuplicatesPage(const std::vector<Survey>& sets, const Duplicates& found)
      : sets_(sets),
        found_(found),
        pictures_(read_pictures(sets, found)),
        page_("Duplicates", subtitle(sets), {"run.js"}) {}

  std::string html() {
    add(&Overlap::relabelled, /*inside=*/true, "With different labels",
        "Exact or near duplicates inside a set that have different labels: at least one label is wrong, or "
        "the "
        "image shows both classes.");
    add(&Overlap::exact, /*inside=*/false, "The same image in two sets", "The pixels are the same.");
    add(&Overlap::near, /*inside=*/false, "Nearly the same image in two sets", kNear);
    add(&Overlap::exact, /*inside=*/true, "The same image twice in a set", "The pixels are the same.");
    add(&Overlap::near, /*inside=*/true, "Nearly the same image twice in a set", kNear);
    if (found_.overlaps.empty()) {
      page_.section("Duplicates");
      page_.add(html_paragraph("None."));
    }
    add_unreadable();
    return page_.html();
  }

 private:
  static constexpr const char* kNear =
      "Pairs side by side, the most alike first. The likeness is the correlation of their brightness, in "
      "small pictures; 1 is the most.";

  static std::string subtitle(const std::vector<Survey>& sets) {
    std::string text;
    for (const Survey& set : sets)
      text += fmt::format("{}{}: {} images", text.empty() ? "" : ", ", set.name, set.count());
    return text;
  }

  void add(Twins Overlap::*kind, bool inside, const std::string& title, const std::string& remark) {
    bool first = true;
    for (const Overlap& overlap : found_.overlaps) {
      const Twins& twins = overlap.*kind;
      if ((overlap.set == overlap.other) != inside || twins.pairs.empty()) continue;
      if (std::exchange(first, false)) page_.section(title);
      draw_tiles(page_, headline(overlap, twins), remark, tiles(overlap, twins));
    }
  }

  std::string headline(const Overlap& overlap, const Twins& twins) const {
    const std::string &set = sets_[overlap.set].name, &other = sets_[overlap.other].name;
    const std::string shown =
        fmt::format("{} pair{} shown", twins.pairs.size(), twins.pairs.size() == 1 ? "" : "s");
    if (overlap.set == overlap.other) return fmt::format("{}: {} images; {}", set, twins.images, shown);
    return fmt::format("{} of {} and {} of {}; {}", twins.images, set, twins.others, other, shown);
  }

  std::vector<Tile> tiles(const Overlap& overlap, const Twins& twins) const {
    std::vector<Tile> all;
    for (const DuplicatePair& pair : twins.pairs) {
      all.push_back(tile_of(sets_[overlap.set], pictures_[overlap.set], pair.image));
      all.push_back(tile_of(sets_[overlap.other], pictures_[overlap.other], pair.twin));
      if (pair.likeness < 1) all.back().caption.push_back(fmt::format("likeness {:.3f}", pair.likeness));
    }
    return all;
  }

  void add_unreadable() {
    std::vector<std::vector<std::string>> rows;
    for (const Survey& set : sets_) {
      for (const Error& problem : set.unreadable)
        rows.push_back({set.name, problem.where(), problem.problem()});
    }
    if (rows.empty()) return;
    page_.section("Unreadable");
    page_.add(
        html_table({"Files that cannot be read", {{"set", true}, {"path", true}, {"reason", true}}, rows}));
  }

  const std::vector<Survey>& sets_;
  const Duplicates& found_;
  Pictures pictures_;
  Page page_;
};

}  // namespace

std::string duplicates_page(const std::vector<Survey>& sets, const Duplicates& found) {
  return DuplicatesPage(sets, found).html();
}

}  // namespace poem

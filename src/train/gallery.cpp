#include "train/gallery.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/file.h"
#include "core/json_text.h"
#include "detect/image_blocks.h"
#include "images/encode.h"
#include "images/resize.h"
#include "poem/metrics.h"

namespace poem {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kMined = "mined-";
constexpr size_t kTiles = 24;  // of a sheet
constexpr int64_t kColumns = 8, kLargestTile = 64;

bool has_pictures(const ImageSet& images) {
  return images.pixels.scalar_type() == at::kByte && (images.channels() == 1 || images.channels() == 3);
}

// Tiles are uint8 C×s×s. Written after its list: who sees a sheet finds the list.
void write_sheet(const std::string& folder, const std::string& name, std::vector<at::Tensor> tiles,
                 const json& captions) {
  if (tiles.empty()) return;
  const at::Tensor first = tiles.front();
  while (tiles.size() % kColumns != 0) tiles.push_back(at::zeros_like(first));
  std::vector<at::Tensor> rows;
  for (size_t i = 0; i < tiles.size(); i += kColumns)
    rows.push_back(at::cat(at::TensorList(&tiles[i], kColumns), 2));
  const json list = {{"tile", first.size(2)}, {"columns", kColumns}, {"tiles", captions}};
  make_output_folder(folder);
  write_file(folder + "/" + name + ".json", json_text(list, 1) + "\n");
  write_file(folder + "/" + name + ".png", encode_png(at::cat(rows, 1).permute({1, 2, 0})));
}

at::Tensor tile(const at::Tensor& pixels) {
  return fit(pixels.unsqueeze(0), std::min({kLargestTile, pixels.size(1), pixels.size(2)}))[0];
}

void add_name(const ImageSet& images, int64_t index, json& caption) {
  if (!images.names.empty()) caption["name"] = images.title(index);
}

// An image of the test sets.
struct Shown {
  size_t set;  // 0: ID
  int64_t index;
  float score;
};

class TestSheets {
 public:
  TestSheets(const std::string& folder, const Detector& detector, const TestData& test,
             const std::vector<ScoredSet>& sets)
      : folder_(folder), detector_(detector), test_(test), sets_(sets) {
    for (size_t set = 0; set < sets.size(); ++set) {
      for (size_t i = 0; i < sets[set].scores[0].size(); ++i)
        all_.push_back({set, static_cast<int64_t>(i), sets[set].scores[0][i]});
    }
    if (test.id.labelled() && sets[0].predicted.defined())
      labels_ = labels_among(test.id, detector.class_names);
  }

  // The images that `wanted` accepts, by rising `key`, as far as there is room for them.
  template <class Wanted, class Key>
  void write(const std::string& name, Wanted wanted, Key key) const {
    std::vector<Shown> chosen;
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(chosen), wanted);
    const size_t count = std::min(chosen.size(), kTiles);
    const auto before = [&](const Shown& a, const Shown& b) {
      return std::make_tuple(key(a), a.set, a.index) < std::make_tuple(key(b), b.set, b.index);
    };
    std::partial_sort(chosen.begin(), chosen.begin() + static_cast<int64_t>(count), chosen.end(), before);
    chosen.resize(count);
    std::vector<at::Tensor> tiles;
    json captions = json::array();
    for (const Shown& image : chosen) {
      tiles.push_back(tile(network_input(images(image), image.index, 1, detector_.size)[0]));
      captions.push_back(caption(image));
    }
    write_sheet(folder_, name, std::move(tiles), captions);
  }

  bool misclassified(const Shown& image) const {
    return image.set == 0 && labels_.defined() && label(image) != predicted(image);
  }

 private:
  const ImageSet& images(const Shown& image) const {
    return image.set == 0 ? test_.id : test_.ood[image.set - 1].images;
  }
  int64_t label(const Shown& image) const { return labels_.data_ptr<int64_t>()[image.index]; }
  int64_t predicted(const Shown& image) const {
    return sets_[image.set].predicted.data_ptr<int64_t>()[image.index];
  }

  json caption(const Shown& image) const {
    json caption = {{"set", sets_[image.set].name}, {"index", image.index}, {"score", image.score}};
    add_name(images(image), image.index, caption);
    if (image.set == 0 && labels_.defined()) caption["class"] = detector_.class_names[label(image)];
    if (sets_[image.set].predicted.defined()) caption["predicted"] = detector_.class_names[predicted(image)];
    return caption;
  }

  const std::string& folder_;
  const Detector& detector_;
  const TestData& test_;
  const std::vector<ScoredSet>& sets_;
  at::Tensor labels_;
  std::vector<Shown> all_;
};

}  // namespace

void write_mined_sheet(const std::string& folder, int64_t epoch, const std::vector<Crop>& mined,
                       const TrainingData& data) {
  const std::vector<MixturePart>& parts = data.outliers.parts();
  const auto shown = [](const MixturePart& part) { return has_pictures(part.images); };
  if (!std::all_of(parts.begin(), parts.end(), shown)) return;
  std::vector<Crop> crops;
  const size_t count = std::min(mined.size(), kTiles);
  for (size_t i = 0; i < count; ++i) crops.push_back(mined[i * mined.size() / count]);
  const at::Tensor pixels =
      cut(data.outliers, crops.data(), static_cast<int64_t>(crops.size()), data.outlier_cut);
  std::vector<at::Tensor> tiles;
  json captions = json::array();
  for (size_t i = 0; i < count; ++i) {
    tiles.push_back(tile(pixels[static_cast<int64_t>(i)]));
    const auto [part, index] = data.outliers.find(crops[i].image);
    const ImageSet& images = parts[part].images;
    captions.push_back({{"index", index}});
    if (parts.size() > 1) captions.back()["source"] = images.name;
    add_name(images, index, captions.back());
    if (images.labelled()) {
      const int64_t label = images.labels.data_ptr<int64_t>()[index];  // known, since the tile was cut
      captions.back()["class"] = images.class_names[label];
    }
  }
  write_sheet(folder, fmt::format("{}{:04}", kMined, epoch), std::move(tiles), captions);
}

void write_test_sheets(const std::string& folder, const Detector& detector, const TestData& test,
                       const std::vector<ScoredSet>& sets) {
  if (!has_pictures(test.id)) return;
  const TestSheets sheets(folder, detector, test, sets);
  const std::vector<float>& id = sets[0].scores[0];
  const double threshold =
      detector.threshold ? *detector.threshold : threshold_at_tpr({id.begin(), id.end()}, 0.95);
  const auto score = [](const Shown& image) { return image.score; };
  const auto falling = [](const Shown& image) { return -image.score; };
  sheets.write(
      "ood-as-id", [&](const Shown& i) { return i.set != 0 && i.score >= threshold; }, falling);
  sheets.write(
      "id-as-ood", [&](const Shown& i) { return i.set == 0 && i.score < threshold; }, score);
  sheets.write(
      "misclassified", [&](const Shown& i) { return sheets.misclassified(i); }, falling);
  sheets.write(
      "near-threshold", [](const Shown&) { return true; },
      [&](const Shown& i) { return i.score == threshold ? 0 : std::abs(i.score - threshold); });
}

void remove_test_sheets(const std::string& folder) {
  if (!fs::is_directory(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind(kMined, 0) != 0) fs::remove(entry.path());
  }
}

}  // namespace poem

// A page with the pictures that a detector rejected and those that it kept, the lowest scores first.
//
//   ContactSheet sheet(detector);
//   predict(detector, sources, [&](const Prediction& p, const at::Tensor& pixels) { sheet.add(p, pixels); });
//   write_file("sheet.html", sheet.html());
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "detect/predict.h"
#include "report/tiles.h"

namespace poem {

class ContactSheet {
 public:
  explicit ContactSheet(const Detector& detector) : detector_(detector) {}

  // `pixels` as predict() gives them. The page shows the 400 images with the lowest scores of each verdict.
  void add(const Prediction& prediction, const at::Tensor& pixels);
  std::string html() const;

 private:
  enum Kind { kUnknown, kUnsure, kKnown, kKinds };
  void add_kind(Page& page, Kind kind, const std::string& title, const std::string& remark) const;

  const Detector& detector_;
  std::multimap<float, Tile> tiles_[kKinds];  // by score
  int64_t counts_[kKinds] = {};
  std::vector<std::vector<std::string>> errors_;  // path and reason
};

}  // namespace poem

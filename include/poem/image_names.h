// The names of images, in order, held in one block of text: a million names cost little more than their
// letters.
//
//   ImageNames names;
//   names.add("cat/1.png");
//   names[0];                 // "cat/1.png", valid until the next add()
//   names.select({0, 0});     // a copy: those of images 0 and 0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace poem {

class ImageNames {
 public:
  void add(std::string_view name);
  std::string_view operator[](int64_t image) const;
  int64_t size() const { return static_cast<int64_t>(ends_.size()); }
  bool empty() const { return ends_.empty(); }
  ImageNames select(const std::vector<int64_t>& images) const;  // none where there are none

 private:
  std::string text_;
  std::vector<size_t> ends_;  // where each name ends in text_; it starts where the one before it ends
};

}  // namespace poem

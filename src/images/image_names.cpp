#include <algorithm>
#include <iterator>
#include <utility>

#include "images/left_out.h"
#include "poem/images.h"

namespace poem {

int64_t number_without(const std::vector<int64_t>& left_out, int64_t i) {
  // left_out[k] − k numbers that stay come before left_out[k]: by bisection, how many of `left_out` come
  // before ours.
  size_t low = 0, high = left_out.size();
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (left_out[middle] - static_cast<int64_t>(middle) <= i) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return i + static_cast<int64_t>(low);
}

void ImageNames::add(std::string_view name) {
  text_ += name;
  ends_.push_back(text_.size());
}

std::string_view ImageNames::operator[](int64_t image) const {
  const size_t start = image == 0 ? 0 : ends_[image - 1];
  return std::string_view(text_).substr(start, ends_[image] - start);
}

int64_t ImageNames::number(int64_t image) const {
  return numbers_.empty() ? number_without(left_out_, image) : numbers_[image];
}

std::string ImageNames::title(int64_t image) const {
  return empty() ? std::to_string(number(image)) : std::string((*this)[image]);
}

ImageNames ImageNames::select(const std::vector<int64_t>& images) const {
  ImageNames part;
  if (empty()) part.numbers_.reserve(images.size());
  for (const int64_t image : images) {
    if (empty())
      part.numbers_.push_back(number(image));
    else
      part.add((*this)[image]);
  }
  return part;
}

void ImageNames::leave_out(const std::vector<int64_t>& images) {
  if (empty() && numbers_.empty()) {
    std::vector<int64_t> more, all;
    for (const int64_t image : images) more.push_back(number(image));
    std::merge(more.begin(), more.end(), left_out_.begin(), left_out_.end(), std::back_inserter(all));
    left_out_ = std::move(all);
    return;
  }
  std::vector<int64_t> kept;
  auto next = images.begin();
  for (int64_t i = 0; i < std::max(size(), static_cast<int64_t>(numbers_.size())); ++i) {
    if (next != images.end() && *next == i)
      ++next;
    else
      kept.push_back(i);
  }
  *this = select(kept);
}

}  // namespace poem

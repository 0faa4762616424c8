#include "poem/images.h"

namespace poem {

void ImageNames::add(std::string_view name) {
  text_ += name;
  ends_.push_back(text_.size());
}

std::string_view ImageNames::operator[](int64_t image) const {
  const size_t start = image == 0 ? 0 : ends_[image - 1];
  return std::string_view(text_).substr(start, ends_[image] - start);
}

ImageNames ImageNames::select(const std::vector<int64_t>& images) const {
  ImageNames part;
  if (empty()) return part;
  for (const int64_t image : images) part.add((*this)[image]);
  return part;
}

}  // namespace poem

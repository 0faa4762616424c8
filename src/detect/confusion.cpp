#include "poem/confusion.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

namespace poem {

int64_t Confusion::count(size_t label) const {
  return std::accumulate(images[label].begin(), images[label].end(), int64_t{0});
}

std::optional<double> Confusion::accuracy(size_t label) const {
  if (count(label) == 0) return std::nullopt;
  return static_cast<double>(images[label][label]) / static_cast<double>(count(label));
}

std::optional<size_t> Confusion::mistaken_for(size_t label) const {
  std::vector<int64_t> wrong = images[label];
  wrong[label] = 0;
  const auto most = std::max_element(wrong.begin(), wrong.end());
  if (*most == 0) return std::nullopt;
  return static_cast<size_t>(most - wrong.begin());
}

std::vector<size_t> Confusion::worst_first() const {
  std::vector<size_t> labels;
  for (size_t label = 0; label < images.size(); ++label) {
    if (count(label) > 0) labels.push_back(label);
  }
  std::stable_sort(labels.begin(), labels.end(),
                   [&](size_t a, size_t b) { return *accuracy(a) < *accuracy(b); });
  return labels;
}

Confusion count_confusions(const at::Tensor& labels, const at::Tensor& predicted,
                           const std::vector<std::string>& class_names) {
  Confusion confusion{class_names, {}};
  confusion.images.assign(class_names.size(), std::vector<int64_t>(class_names.size()));
  const at::Tensor rows = labels.contiguous(), columns = predicted.contiguous();
  for (int64_t i = 0; i < rows.numel(); ++i)
    ++confusion.images[rows.data_ptr<int64_t>()[i]][columns.data_ptr<int64_t>()[i]];
  return confusion;
}

}  // namespace poem

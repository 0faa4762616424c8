// Which classes a classifier confuses.
//
//   Confusion confusion = count_confusions(labels, predicted, {"cat", "dog"});
//   confusion.images[0][1];       // the number of cats that it calls dogs
//   confusion.accuracy(0);        // the share of cats that it calls cats
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace poem {

struct Confusion {
  std::vector<std::string> class_names;
  std::vector<std::vector<int64_t>> images;  // [true class][predicted class]

  int64_t count(size_t label) const;                   // images of the class
  std::optional<double> accuracy(size_t label) const;  // empty if the class has no images
  std::optional<size_t> mistaken_for(
      size_t label) const;                  // the most frequent wrong class; empty if all are right
  std::vector<size_t> worst_first() const;  // classes with images, by rising accuracy
};

// labels and predicted: int64 n, each in 0 … class_names.size()−1.
Confusion count_confusions(const at::Tensor& labels, const at::Tensor& predicted,
                           const std::vector<std::string>& class_names);

}  // namespace poem

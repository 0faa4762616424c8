#include "data/image_files.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/runtime.h"
#include "data/decode.h"
#include "data/resize.h"

namespace poem {
namespace {

constexpr size_t kBlock = 256;

// The length of the leading folders ("a/b/") that all paths share. `folders` is sorted, so that comparing the
// first and the last is enough.
size_t shared_prefix(const std::map<std::string, int64_t>& folders) {
  const std::string first = folders.begin()->first + "/", last = folders.rbegin()->first + "/";
  const auto differs = std::mismatch(first.begin(), first.end(), last.begin(), last.end()).first;
  const size_t slash = first.substr(0, static_cast<size_t>(differs - first.begin())).rfind('/');
  return slash == std::string::npos ? 0 : slash + 1;
}

}  // namespace

ImageFiles::ImageFiles(std::string source, const ReadOptions& options, Sink sink)
    : source_(std::move(source)), options_(options), sink_(std::move(sink)) {}

int64_t ImageFiles::folder_index(const std::string& name) {
  const std::string folder = std::filesystem::path(name).parent_path().string();
  return folders_.emplace(folder, folders_.size()).first->second;
}

Labels ImageFiles::announce(const std::vector<std::string>& names) {
  std::vector<int64_t> folders;
  for (const std::string& name : names) folders.push_back(folder_index(name));
  return label(folders);
}

void ImageFiles::add(std::string where, std::string name, std::optional<std::string> bytes) {
  const int64_t folder = folder_index(name);
  waiting_.push_back({std::move(where), std::move(name), folder, std::move(bytes)});
  if (waiting_.size() == kBlock) flush();
}

void ImageFiles::check_size(const std::string& where, const at::Tensor& image) {
  if (first_.empty()) {
    first_ = where;
    first_size_ = image.sizes().vec();
  }
  if (image.sizes().vec() == first_size_) return;
  throw Error(
      where,
      fmt::format("is {}×{} pixels, but {} is {}×{}", image.size(1), image.size(2), first_, first_size_[1],
                  first_size_[2]),
      "bring all to one size with --size N, in a config data.size, or for outliers outliers.fit: resize");
}

void ImageFiles::flush() {
  stop_if_interrupted();
  const auto count = static_cast<int64_t>(waiting_.size());
  std::vector<at::Tensor> images(count);
  std::vector<std::optional<Error>> problems(count);
  const std::string remedy =
      options_.skip_bad
          ? ""
          : "replace the file, or leave such images out with --skip-bad, in a config data.skip_bad: true";
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Item& item = waiting_[i];
      try {
        const std::string bytes = item.bytes ? *std::move(item.bytes) : read_file(item.where);
        images[i] = fit(decode_image(item.where, bytes, remedy).unsqueeze(0), options_.size).squeeze(0);
      } catch (const Error& error) {
        problems[i] = error;
      }
    }
  });
  std::vector<at::Tensor> good;
  for (int64_t i = 0; i < count; ++i) {
    if (problems[i]) {
      if (!options_.skip_bad) throw *problems[i];
      spdlog::warn("left out: {}", problems[i]->what());
      continue;
    }
    check_size(waiting_[i].where, images[i]);
    good.push_back(std::move(images[i]));
    kept_.push_back(waiting_[i].folder);
    names_.add(waiting_[i].name);
  }
  waiting_.clear();
  if (!good.empty()) sink_(at::stack(good));
}

Labels ImageFiles::finish() {
  flush();
  if (!folders_.empty() && kept_.empty())
    throw Error(source_, "holds no image that can be decoded", "check the files");
  Labels labels = label(kept_);
  labels.names = std::move(names_);
  return labels;
}

Labels ImageFiles::label(const std::vector<int64_t>& folders) const {
  if (folders_.empty()) throw Error(source_, "holds no .jpg, .jpeg or .png images", "check the path");
  const size_t skip = shared_prefix(folders_);
  std::map<std::string, int64_t> classes;  // sorted
  for (const auto& [folder, index] : folders_) {
    const std::string below = (folder + "/").substr(skip);
    classes.emplace(below.substr(0, below.find('/')), 0);
  }
  if (classes.size() == 1) return {};
  if (classes.count("") > 0)
    throw Error(source_,
                fmt::format("has images both beside and inside the folder '{}'", classes.rbegin()->first),
                "a folder is a class: put every image into one, or all images into a single folder");
  Labels result;
  for (auto& [name, label] : classes) {
    label = static_cast<int64_t>(result.class_names.size());
    result.class_names.push_back(name);
  }
  std::vector<int64_t> label_of(folders_.size());
  for (const auto& [folder, index] : folders_) {
    const std::string below = (folder + "/").substr(skip);
    label_of[index] = classes.at(below.substr(0, below.find('/')));
  }
  result.labels = at::empty({static_cast<int64_t>(folders.size())}, at::kLong);
  std::transform(folders.begin(), folders.end(), result.labels.data_ptr<int64_t>(),
                 [&](int64_t folder) { return label_of[folder]; });
  return result;
}

}  // namespace poem

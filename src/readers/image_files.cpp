#include "readers/image_files.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/file.h"
#include "core/interrupts.h"
#include "core/text.h"
#include "poem/error.h"
#include "readers/decode.h"

namespace poem {
namespace {

constexpr size_t kBlock = 256;
constexpr int kBlockPerThread = 4;               // where the next image may be far larger than those before
constexpr size_t kBlockBytes = size_t{1} << 26;  // of pixels, or of files that wait to be decoded

// A pipe may never end, and neither does /dev/zero.
std::string read_regular_file(const std::string& path) {
  std::error_code code;
  if (std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code))
    throw Error(path, "is not a regular file", "name an image file");
  return read_file(path);
}

}  // namespace

ImageFiles::ImageFiles(std::string source, const ReadOptions& options, Sink sink)
    : source_(std::move(source)), options_(options), sink_(std::move(sink)) {}

int64_t ImageFiles::folder_index(const std::string& name) {
  const std::string folder = std::filesystem::path(name).parent_path().string();
  const auto [entry, is_new] = folders_.emplace(folder, folders_.size());
  if (is_new) examples_.push_back(name);
  return entry->second;
}

Labels ImageFiles::announced() {
  Labels labels = label(announced_);
  tell_passed_over();
  return labels;
}

void ImageFiles::add(std::string where, std::string name, std::optional<std::string> bytes) {
  const int64_t folder = folder_index(name);
  waiting_bytes_ += bytes ? bytes->size() : 0;
  waiting_.push_back({std::move(where), std::move(name), folder, std::move(bytes)});
  if (waiting_.size() == kBlock || waiting_bytes_ > kBlockBytes) flush();
}

void ImageFiles::check_size(const std::string& where, const at::Tensor& image) {
  if (first_.empty()) {
    first_ = where;
    first_size_ = image.sizes().vec();
  }
  if (options_.any_size || image.sizes().vec() == first_size_) return;
  throw Error(where,
              fmt::format("is {}×{} pixels, but {} is {}×{}", image.size(1), image.size(2), first_,
                          first_size_[1], first_size_[2]),
              "resize all with option size; in a config set outliers.fit: resize");
}

// How many are decoded at once. The first is decoded alone, because it shows how large they are.
size_t ImageFiles::block() const {
  if (options_.any_size) return static_cast<size_t>(kBlockPerThread * at::get_num_threads());
  if (first_size_.empty()) return 1;
  size_t bytes = 1;
  for (const int64_t axis : first_size_) bytes *= static_cast<size_t>(axis);
  return std::clamp<size_t>(kBlockBytes / bytes, at::get_num_threads(), kBlock);
}

void ImageFiles::flush() {
  while (!waiting_.empty()) decode(std::min(waiting_.size(), block()));
  waiting_bytes_ = 0;
}

// Decodes the first `block` of the waiting images.
void ImageFiles::decode(size_t block) {
  stop_if_interrupted();
  const auto count = static_cast<int64_t>(block);
  std::vector<at::Tensor> images(count);
  std::vector<std::optional<Error>> problems(count);
  const std::string remedy =
      options_.skip_bad || options_.on_image
          ? ""
          : "replace the file, or skip such images with option skip_bad; in a config set data.skip_bad: true";
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Item& item = waiting_[i];
      try {
        const std::string bytes = item.bytes ? *std::move(item.bytes) : read_regular_file(item.where);
        images[i] = decode_image(item.where, bytes, options_.size, remedy);
      } catch (const Error& error) {
        problems[i] = error;
      }
    }
  });
  std::vector<at::Tensor> good;
  for (int64_t i = 0; i < count; ++i) {
    if (options_.on_image) options_.on_image(waiting_[i].where, problems[i] ? &*problems[i] : nullptr);
    if (problems[i]) {
      if (options_.on_image) continue;
      if (!options_.skip_bad) throw *problems[i];
      if (options_.on_bad)
        options_.on_bad(*problems[i]);
      else
        spdlog::warn("left out: {}", problems[i]->what());
      bad_.push_back(waiting_[i].folder);
      continue;
    }
    check_size(waiting_[i].where, images[i]);
    good.push_back(std::move(images[i]));
    kept_.push_back(waiting_[i].folder);
    names_.add(waiting_[i].name);
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  for (size_t first = 0, last; first < good.size(); first = last) {  // images of one size at a time
    for (last = first + 1; last < good.size() && good[last].sizes() == good[first].sizes();) ++last;
    sink_(at::stack(at::TensorList(good).slice(first, last - first)));
  }
}

Labels ImageFiles::finish() {
  flush();
  if (!folders_.empty() && kept_.empty() && !options_.on_image)
    throw Error(source_, "contains no image that can be decoded", "check the files");
  Labels labels = label(kept_);
  if (!told_) tell_passed_over();
  tell_bad_classes(labels);
  labels.names = std::move(names_);
  return labels;
}

void ImageFiles::tell_passed_over() {
  told_ = true;
  if (const std::string files = passed_over_.summary(); !files.empty())
    spdlog::info("{}: passed over {}", source_, files);
  complain_of_classes(passed_over_.empty_classes(folder_names()));
}

// Complains of classes whose images were all left out.
void ImageFiles::tell_bad_classes(const Labels& kept) const {
  if (bad_.empty() || !kept.labels.defined()) return;
  const auto classes = static_cast<int64_t>(kept.class_names.size());
  const at::Tensor good = at::bincount(kept.labels, {}, classes),
                   bad = at::bincount(label(bad_).labels, {}, classes);
  std::vector<std::string> without_image;
  for (int64_t i = 0; i < classes; ++i) {
    const auto count = bad[i].item<int64_t>();
    if (count > 0 && good[i].item<int64_t>() == 0)
      without_image.push_back(fmt::format("{} ({} that cannot be decoded)", kept.class_names[i], count));
  }
  complain_of_classes(without_image);
}

void ImageFiles::complain_of_classes(const std::vector<std::string>& without_image) const {
  if (without_image.empty() || options_.on_image) return;
  const std::string what = fmt::format("has class folders without an image: {}", listed(without_image));
  if (options_.every_class)
    throw Error(source_, what, "convert their files to JPEG or PNG, or move the folders away");
  spdlog::warn("{} {}", source_, what);
}

std::vector<std::string> ImageFiles::folder_names() const {
  std::vector<std::string> names;
  for (const auto& [folder, index] : folders_) names.push_back(folder);
  return names;
}

Labels ImageFiles::label(const std::vector<int64_t>& folders) const {
  if (folders_.empty()) {
    const std::string files = passed_over_.summary();
    throw Error(source_, "contains no image" + (files.empty() ? "" : ", only " + files),
                "poem reads " + listed(image_extensions()) + " files");
  }
  if (options_.on_image) return {};
  const std::string shared = shared_folders(folder_names());
  std::map<std::string, int64_t> classes;  // sorted
  std::string stray;
  for (const auto& [folder, index] : folders_) {
    const std::string name = class_of(folder, shared);
    if (name.empty()) stray = examples_[index];
    classes.emplace(name, 0);
  }
  if (classes.size() == 1) return {};
  if (classes.count("") > 0)
    throw Error(source_, fmt::format("has images outside of its class folders, such as {}", stray),
                "a folder is a class: put every image into one, or all images into a single folder");
  Labels result;
  for (auto& [name, label] : classes) {
    label = static_cast<int64_t>(result.class_names.size());
    result.class_names.push_back(name);
  }
  std::vector<int64_t> label_of(folders_.size());
  for (const auto& [folder, index] : folders_) label_of[index] = classes.at(class_of(folder, shared));
  result.labels = at::empty({static_cast<int64_t>(folders.size())}, at::kLong);
  std::transform(folders.begin(), folders.end(), result.labels.data_ptr<int64_t>(),
                 [&](int64_t folder) { return label_of[folder]; });
  return result;
}

}  // namespace poem

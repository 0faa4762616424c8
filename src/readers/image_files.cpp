#include "readers/image_files.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

#include "core/file.h"
#include "core/interrupts.h"
#include "core/memory.h"
#include "core/text.h"
#include "poem/error.h"
#include "readers/decode.h"

namespace poem {
namespace {

constexpr size_t kBlock = 256;
constexpr int kBlockPerThread = 4;               // where the next image may be far larger than those before
constexpr size_t kBlockBytes = size_t{1} << 26;  // of pixels, or of files that wait to be decoded
constexpr const char* kSkip = "skip such images with option skip_bad; in a config set data.skip_bad: true";
constexpr size_t kSampleBytes = size_t{1} << 28;  // of files that wait for the class of their sample

// A pipe may never end, and neither does /dev/zero.
std::string read_regular_file(const std::string& path) {
  std::error_code code;
  if (std::filesystem::exists(path, code) && !std::filesystem::is_regular_file(path, code))
    throw Error(path, "is not a regular file", "name an image file");
  if (const uintmax_t bytes = std::filesystem::file_size(path, code); !code && bytes > kMostImageBytes)
    throw Error(path, "is larger than 1 GiB, too much for an image", "name an image file");
  return read_file(path);
}

bool is_number(const std::string& text) { return text.find_first_not_of("0123456789") == std::string::npos; }

}  // namespace

ImageFiles::ImageFiles(std::string source, const ReadOptions& options, Sink sink)
    : source_(std::move(source)), options_(options), sink_(std::move(sink)) {}

ImageFiles::Origin ImageFiles::origin_of(const std::string& name) {
  const std::string folder = std::filesystem::path(name).parent_path().string();
  const auto [entry, is_new] = folders_.emplace(folder, static_cast<int32_t>(folders_.size()));
  if (is_new) examples_.push_back(name);
  sample_images_.push_back(name);
  return {entry->second, class_index()};
}

// Classes of samples without an image do not count.
int32_t ImageFiles::class_index() {
  if (sample_class_.empty() || sample_images_.empty()) return -1;
  return sample_classes_.emplace(sample_class_, static_cast<int32_t>(sample_classes_.size())).first->second;
}

// WebDataset's key of a sample is the path up to the first dot of the file's name.
void ImageFiles::enter_sample(const std::string& name) {
  const size_t slash = name.rfind('/'), dot = name.find('.', slash == std::string::npos ? 0 : slash);
  const std::string key = name.substr(0, dot);
  if (sample_ == key) return;
  leave_sample();
  sample_ = key;
}

void ImageFiles::leave_sample() {
  if (sample_class_.empty() && classless_.empty() && !sample_images_.empty())
    classless_ = sample_images_.front();
  sample_.reset();
  sample_class_.clear();
  sample_images_.clear();
  sample_begun_ = false;
}

void ImageFiles::add_class(const std::string& where, const std::string& name, const std::string& text) {
  constexpr size_t kLongest = 200;
  constexpr const char* kSpace = " \t\r\n";
  const size_t first = std::min(text.find_first_not_of(kSpace), text.size());
  std::string value = text.substr(first, text.find_last_not_of(kSpace) + 1 - first);
  if (value.empty() || value.size() > kLongest || value.find('\n') != std::string::npos)
    throw Error(where, value.empty() ? "is empty" : "does not contain one class",
                "write the number or the name of a class into it");
  if (is_number(value)) value.erase(0, std::min(value.find_first_not_of('0'), value.size() - 1));  // 007
  enter_sample(name);
  if (sample_begun_)
    throw Error(where,
                fmt::format("comes after more than {} MiB of images of its sample", kSampleBytes >> 20),
                "write it before them");
  if (!sample_class_.empty() && sample_class_ != value)
    throw Error(where,
                fmt::format("says class {}, but its sample has class {} already", value, sample_class_),
                "give every sample a name of its own");
  sample_class_ = value;
  for (size_t i = 1; i <= sample_images_.size(); ++i) {  // images that came before their class
    if (i <= waiting_.size()) waiting_[waiting_.size() - i].origin.sample_class = class_index();
    if (i <= announced_.size()) announced_[announced_.size() - i].sample_class = class_index();
  }
}

void ImageFiles::announce(const std::string& name) {
  enter_sample(name);
  announced_.push_back(origin_of(name));
}

Labels ImageFiles::announced() {
  leave_sample();
  Labels labels = label(announced_);
  tell_passed_over();
  return labels;
}

void ImageFiles::add(std::string where, std::string name, std::optional<std::string> bytes) {
  enter_sample(name);
  // In an archive the class of a sample may follow its images.
  const bool wait = bytes && takes_classes() && !sample_images_.empty() && sample_class_.empty();
  const bool full = waiting_.size() >= kBlock || waiting_bytes_ > kBlockBytes;
  if (full && (!wait || waiting_bytes_ > kSampleBytes)) {
    sample_begun_ = wait;
    flush();
  }
  const Origin origin = origin_of(name);
  waiting_bytes_ += bytes ? bytes->size() : 0;
  waiting_.push_back({std::move(where), std::move(name), origin, std::move(bytes), std::nullopt});
}

void ImageFiles::add_bad(const std::string& where, const std::string& name, const Error& problem) {
  add(where, name, "");
  const bool skipped = options_.skip_bad || options_.on_image;
  waiting_.back().problem =
      Error(where, problem.problem(),
            skipped ? problem.remedy() : fmt::format("{}, or {}", problem.remedy(), kSkip));
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
      options_.skip_bad || options_.on_image ? "" : fmt::format("replace the file, or {}", kSkip);
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Item& item = waiting_[i];
      try {
        images[i] = name_if_out_of_memory(item.where, remedy, [&] {
          if (item.problem) throw *item.problem;
          const std::string bytes = item.bytes ? *std::move(item.bytes) : read_regular_file(item.where);
          return decode_image(item.where, bytes, options_.size, remedy, options_.repeat_small);
        });
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
      bad_.push_back(waiting_[i].origin);
      continue;
    }
    check_size(waiting_[i].where, images[i]);
    good.push_back(std::move(images[i]));
    kept_.push_back(waiting_[i].origin);
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
  leave_sample();
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

Labels ImageFiles::label(const std::vector<Origin>& images) const {
  if (folders_.empty()) {
    const std::string files = passed_over_.summary();
    throw Error(source_, "contains no image" + (files.empty() ? "" : ", only " + files),
                "poem reads " + listed(image_extensions()) + " files");
  }
  if (options_.on_image) return {};
  if (!sample_classes_.empty()) return label_by_sample(images);
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
  result.labels = at::empty({static_cast<int64_t>(images.size())}, at::kLong);
  std::transform(images.begin(), images.end(), result.labels.data_ptr<int64_t>(),
                 [&](const Origin& image) { return label_of[image.folder]; });
  return result;
}

Labels ImageFiles::label_by_sample(const std::vector<Origin>& images) const {
  if (!classless_.empty()) {
    const std::string what =
        fmt::format("has images without a class, such as {}, but others have one in a .cls file", classless_);
    if (options_.every_class) throw Error(source_, what, "write a .cls file for every image");
    spdlog::warn("{} {}: the classes are not used", source_, what);
    return {};
  }
  std::vector<std::string> names(sample_classes_.size());
  for (const auto& [name, index] : sample_classes_) names[index] = name;
  const bool numbers = std::all_of(names.begin(), names.end(), is_number);
  std::vector<int64_t> order(names.size()), label_of(names.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return numbers && names[a].size() != names[b].size() ? names[a].size() < names[b].size()
                                                         : names[a] < names[b];
  });
  Labels result;
  for (const int64_t index : order) {
    label_of[index] = static_cast<int64_t>(result.class_names.size());
    result.class_names.push_back(names[index]);
  }
  if (names.size() == 1) return {};
  result.labels = at::empty({static_cast<int64_t>(images.size())}, at::kLong);
  std::transform(images.begin(), images.end(), result.labels.data_ptr<int64_t>(),
                 [&](const Origin& image) { return label_of[image.sample_class]; });
  return result;
}

}  // namespace poem

#include "readers/reader_tools.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <numeric>
#include <sstream>
#include <string_view>
#include <utility>

#include "core/file.h"
#include "core/interrupts.h"
#include "core/progress.h"
#include "core/text.h"
#include "poem/error.h"

namespace poem {

namespace fs = std::filesystem;

void visit_in_blocks(const at::Tensor& pixels, const Sink& sink) {
  visit_in_blocks(ImageSet{"reading", pixels, {}, {}}, sink);
}

void visit_in_blocks(const ImageSet& images, const Sink& sink) {
  constexpr int64_t kBlockBytes = 16 << 20;
  const int64_t count = images.size(), bytes = images.channels() * images.height() * images.width();
  const int64_t step = std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(1, bytes));
  Progress bar(images.name, count, "images");
  for (int64_t i = 0; i < count; i += step) {
    stop_if_interrupted();
    const int64_t n = std::min(step, count - i);
    std::vector<int64_t> indices(images.left_out.empty() ? 0 : n);
    std::iota(indices.begin(), indices.end(), i);
    sink(indices.empty() ? images.pixels.narrow(0, i, n).contiguous() : subset(images, indices).pixels);
    bar.advance(n);
  }
}

std::vector<std::string> number_names(int64_t count, int64_t first) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(first + i));
  return names;
}

std::vector<std::string> read_class_names(const std::string& path, int64_t count) {
  if (!fs::exists(path)) return number_names(count);
  std::istringstream lines(read_file(path));
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    const size_t end = line.find_last_not_of(" \t\r");
    if (end != line.npos) names.push_back(line.substr(0, end + 1));
  }
  if (static_cast<int64_t>(names.size()) != count)
    throw Error(path, fmt::format("has {} class names, expected {}", names.size(), count),
                "correct the file, or remove it to number the classes");
  return names;
}

void check_labels(const std::string& where, const at::Tensor& labels, int64_t low, int64_t high) {
  const at::Tensor bad = at::logical_or(labels<low, labels> high);
  if (!bad.any().item<bool>()) return;
  const int64_t image = bad.nonzero()[0].item<int64_t>();
  throw Error(where,
              fmt::format("image {} has label {}, expected {} to {}", image, labels[image].item<int64_t>(),
                          low, high),
              "correct the file or download it again");
}

std::optional<int64_t> number_in(const std::string& name, const std::string& prefix,
                                 const std::string& suffix) {
  if (name.size() <= prefix.size() + suffix.size() || name.compare(0, prefix.size(), prefix) != 0 ||
      name.compare(name.size() - suffix.size(), suffix.size(), suffix) != 0)
    return std::nullopt;
  const auto number = parse_number<int64_t>(
      std::string_view(name).substr(prefix.size(), name.size() - prefix.size() - suffix.size()));
  constexpr int64_t kMost = 1000000000;
  return number && *number >= 0 && *number < kMost ? number : std::nullopt;
}

std::vector<std::string> numbered_files(const std::string& folder, const std::string& prefix,
                                        const std::string& suffix) {
  std::vector<std::pair<int64_t, std::string>> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (const auto number = number_in(entry.path().filename().string(), prefix, suffix))
      found.emplace_back(*number, entry.path().string());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> files;
  for (auto& [number, path] : found) files.push_back(std::move(path));
  return files;
}

bool has_extension(const std::string& path, const std::string& extension) {
  if (path.size() <= extension.size()) return false;
  return std::equal(extension.begin(), extension.end(),
                    path.end() - static_cast<std::ptrdiff_t>(extension.size()),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

}  // namespace poem

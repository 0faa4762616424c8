#include "readers/source.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "core/file.h"
#include "core/npy.h"
#include "core/text.h"
#include "poem/error.h"
#include "poem/random.h"
#include "readers/reader_tools.h"

namespace poem {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kKeys = {"exclude", "per_class", "count", "seed", "share"};

std::string from(const std::string& folder, const std::string& path) {
  return folder.empty() ? path : (fs::path(folder) / path).string();
}

// Where the keys of a source begin; npos if there are none, or if the text is the path of a file.
size_t first_mark(const std::string& text, const std::string& folder) {
  std::error_code ignored;  // find_reader() meets the same fault and reports it
  const size_t mark = text.find('#');
  const bool path = !is_drawn(text) && mark != text.npos && fs::exists(from(folder, text), ignored);
  return path ? text.npos : mark;
}

void set_option(Source& source, const std::string& option, const std::string& folder) {
  const size_t equals = option.find('=');
  const std::string key = option.substr(0, equals);
  if (std::count(kKeys.begin(), kKeys.end(), key) == 0) {
    throw Error(
        source.text, fmt::format("'#{}' is not known", option),
        fmt::format("{}known: {}; or the path does not exist", suggestion(key, kKeys), listed(kKeys)));
  }
  if (key == "share") {
    throw Error(source.text, "#share is only for data.outliers: it mixes several sources",
                "leave it out, or use #count=N to take part of a source");
  }
  const std::string value = equals == option.npos ? "" : option.substr(equals + 1);
  if (key == "exclude") {
    if (value.empty()) throw Error(source.text, "exclude names no file", "write #exclude=FILE");
    source.exclude = from(folder, value);
  } else if (key == "per_class") {
    source.per_class = whole_number<int64_t>(source.text, key, value, 1);
  } else if (key == "count") {
    source.count = whole_number<int64_t>(source.text, key, value, 1);
  } else {
    source.seed = whole_number<uint64_t>(source.text, key, value, 0);
  }
}

std::vector<int64_t> parse_indices(const std::string& path) {
  std::istringstream text(read_file(path));
  std::vector<int64_t> indices;
  for (std::string word; text >> word;) {
    const auto index = parse_number<int64_t>(word);
    if (!index) {
      throw Error(path, fmt::format("'{}' is not an image number", word.substr(0, 40)),
                  "write whole numbers from 1, one per line");
    }
    indices.push_back(*index);
  }
  return indices;
}

std::vector<int64_t> array_indices(const std::string& path) {
  const at::Tensor array = read_npy(path);
  if (!c10::isIntegralType(array.scalar_type(), /*includeBool=*/false)) {
    throw Error(path, fmt::format("has elements of type {}", numpy_type(array)),
                "save image numbers, from 0, as integers");
  }
  const at::Tensor numbers = array.reshape({-1}).to(at::kLong).contiguous();
  return {numbers.data_ptr<int64_t>(), numbers.data_ptr<int64_t>() + numbers.numel()};
}

// At most `most` images of each class, ascending.
std::vector<int64_t> choose_of_classes(const ImageSet& set, int64_t most, uint64_t seed) {
  std::vector<std::vector<int64_t>> classes(set.class_names.size());
  const at::Tensor labels = set.labels.contiguous();
  const auto* label = labels.data_ptr<int64_t>();
  for (int64_t i = 0; i < set.size(); ++i) classes[label[i]].push_back(i);
  std::vector<int64_t> chosen;
  for (size_t c = 0; c < classes.size(); ++c) {
    const auto size = static_cast<int64_t>(classes[c].size());
    Stream stream(seed, "part-class", c);
    for (const int64_t i : sample(size, std::min(size, most), stream)) chosen.push_back(classes[c][i]);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace

bool is_drawn(const std::string& source) {
  return source.rfind("world:", 0) == 0 || source.rfind("world2d:", 0) == 0;
}

SharedSource split_share(const std::string& text, const std::string& folder) {
  constexpr std::string_view kShare = "#share=";
  const size_t begin = text.find(kShare, first_mark(text, folder));
  if (begin == text.npos) return {text, std::nullopt};
  const size_t end = text.find('#', begin + 1);
  const std::string value = text.substr(begin + kShare.size(), end - begin - kShare.size());
  const auto share = parse_number<double>(value);
  if (!share || !(*share > 0 && *share <= 1))
    throw Error(text, "#share is '" + value + "'", "it must be above 0 and at most 1");
  if (end != text.npos && text.find(kShare, end) != text.npos)
    throw Error(text, "'#share' is given twice", "keep one");
  return {text.substr(0, begin) + (end == text.npos ? "" : text.substr(end)), share};
}

Source parse_source(const std::string& text, const std::string& folder) {
  const bool drawn = is_drawn(text);
  Source source;
  source.text = text;
  size_t mark = first_mark(text, folder);
  source.place = drawn ? text.substr(0, mark) : from(folder, text.substr(0, mark));
  std::vector<std::string> seen;
  while (mark != text.npos) {
    const size_t next = text.find('#', mark + 1);
    const std::string option = text.substr(mark + 1, next == text.npos ? next : next - mark - 1);
    set_option(source, option, folder);
    seen.push_back(option.substr(0, option.find('=')));
    if (std::count(seen.begin(), seen.end(), seen.back()) > 1)
      throw Error(text, fmt::format("'#{}' is given twice", seen.back()), "keep one");
    mark = next;
  }
  if (std::count(seen.begin(), seen.end(), "seed") > 0 && source.per_class == 0 && source.count == 0)
    throw Error(text, "#seed has no effect without a random choice", "add #count=N or #per_class=N");
  return source;
}

std::vector<int64_t> read_indices(const std::string& path, int64_t rows) {
  const bool array = has_extension(path, ".npy");
  const int64_t first = array ? 0 : 1;
  std::vector<int64_t> indices = array ? array_indices(path) : parse_indices(path);
  for (int64_t& index : indices) {
    if (index < first || index - first >= rows) {
      throw Error(
          path,
          fmt::format("names image {}, but the source has images {} to {}", index, first, rows - 1 + first),
          array ? "a .npy counts from 0" : "a text file counts from 1, a .npy from 0");
    }
    index -= first;
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

void take_part(ImageSet& set, const Source& source) {
  if (!source.exclude.empty()) leave_out(set, read_indices(source.exclude, set.size()));
  if (set.size() == 0) throw Error(source.text, "exclude leaves no image", "check " + source.exclude);
  if (source.per_class > 0) {
    if (!set.labelled())
      throw Error(source.text, "has no classes, so #per_class cannot be used", "use #count=N");
    set = subset(set, choose_of_classes(set, source.per_class, source.seed));
  }
  if (source.count > set.size()) {
    throw Error(source.text,
                fmt::format("contains {} images, but #count asks for {}", set.size(), source.count),
                "lower #count, or leave it out to use all");
  }
  if (source.count > 0) {
    Stream stream(source.seed, "part");
    set = subset(set, sample(set.size(), source.count, stream));
  }
}

}  // namespace poem

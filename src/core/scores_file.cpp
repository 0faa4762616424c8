#include "core/scores_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/file.h"
#include "core/npy.h"
#include "core/text.h"
#include "poem/error.h"

namespace poem {
namespace {

constexpr std::string_view kBlank = " \t\r\v\f";

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::optional<double> parse(std::string_view token) {
  const std::string text(token);
  char* end = nullptr;
  errno = 0;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

double checked(const std::string& path, int64_t line, std::string_view token) {
  const std::optional<double> value = parse(token);
  const bool out_of_range = errno == ERANGE;  // strtod's
  if (!value) {
    throw Error(path, fmt::format("line {}: '{}' is not a number", line, token.substr(0, 40)),
                "the file must contain one score per input");
  }
  if (std::isnan(*value)) throw Error(path, fmt::format("line {}: the score is NaN", line), "remove it");
  if (out_of_range && (*value == 0 || std::isinf(*value))) {
    throw Error(path, fmt::format("line {}: {} is beyond the range of float64", line, token.substr(0, 40)),
                "rescale the scores");
  }
  return *value;
}

// One record of a CSV file: a line, or several where a quoted field contains line breaks.
struct Record {
  int64_t line;  // its first
  std::vector<std::string> fields;
};

// Reads the field that begins at `at` and leaves `at` on what ends it: a separator, a line feed or the end.
// Quotes count only around a whole field.
std::string read_field(const std::string& path, const std::string& text, size_t& at, int64_t& line) {
  while (at < text.size() && kBlank.find(text[at]) != kBlank.npos && text[at] != '\t') ++at;
  std::string field;
  if (at < text.size() && text[at] == '"') {
    const int64_t opened = line;
    for (++at;; ++at) {
      if (at == text.size())
        throw Error(path, fmt::format("line {}: a quote is not closed", opened), "close it");
      if (text[at] == '"' && text.compare(at, 2, "\"\"") != 0) break;
      if (text[at] == '"') ++at;  // two stand for one
      line += text[at] == '\n';
      field += text[at];
    }
    ++at;
  }
  const size_t end = std::min(text.find_first_of(",;\t\n", at), text.size());
  field += trimmed(std::string_view(text).substr(at, end - at));
  at = end;
  return field;
}

// Leaves `at` behind the record.
Record read_record(const std::string& path, const std::string& text, size_t& at, int64_t& line) {
  Record record{line, {read_field(path, text, at, line)}};
  while (at < text.size() && text[at] != '\n') record.fields.push_back(read_field(path, text, ++at, line));
  ++at;
  ++line;
  return record;
}

// Whether it is the header of poem's own scores.csv, which must then have one score.
bool is_own_header(const std::string& path, const std::vector<std::string>& fields) {
  const std::string columns(kScoresColumns), header = fmt::format("{}", fmt::join(fields, ","));
  if (header != columns && header.rfind(columns + ",", 0) != 0) return false;
  const auto own = std::count(columns.begin(), columns.end(), ',') + 1;
  const std::vector<std::string> scores(fields.begin() + own, fields.end());
  if (scores.size() == 1) return true;
  throw Error(path, fmt::format("has {} scores: {}", scores.size(), listed(scores)),
              "evaluate with one score only, and use that scores.csv");
}

std::vector<double> read_csv(const std::string& path, const std::string& set) {
  const std::string text = read_file(path);
  std::vector<double> scores;
  std::vector<std::string> others;  // sets that are not asked for
  bool own = false;
  int64_t line = 1;
  for (size_t at = 0; at < text.size();) {
    const Record record = read_record(path, text, at, line);
    const std::string &name = record.fields.front(), &cell = record.fields.back();
    if (record.fields.size() == 1 && cell.empty()) continue;
    if (record.line == 1 && !parse(cell)) {
      own = is_own_header(path, record.fields);
    } else if (!own || name == set) {
      scores.push_back(checked(path, record.line, cell));
    } else if (std::find(others.begin(), others.end(), name) == others.end()) {
      others.push_back(name);
    }
  }
  if (scores.empty() && !others.empty())
    throw Error(path, fmt::format("has no set '{}'", set), "its sets are " + listed(others));
  return scores;
}

std::vector<double> read_text(const std::string& path) {
  const std::string content = read_file(path);
  std::vector<double> scores;
  int64_t line = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    std::string_view text = std::string_view(content).substr(begin, end - begin);
    begin = end + 1;
    ++line;
    while (!(text = trimmed(text)).empty()) {
      const std::string_view token = text.substr(0, text.find_first_of(kBlank));
      scores.push_back(checked(path, line, token));
      text.remove_prefix(token.size());
    }
  }
  return scores;
}

StoredArray only_array(const std::string& path) {
  const auto arrays = open_npz(path);
  if (arrays.size() == 1) return arrays.begin()->second;
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) names.push_back(name);
  throw Error(path, fmt::format("contains {} arrays: {}", names.size(), listed(names)),
              "save the scores alone, as an .npy or as the only array of an .npz");
}

// float64 represents every whole number up to 2⁵³; beyond, neighbours share one float64.
void check_exact(const std::string& path, const at::Tensor& integers) {
  constexpr int64_t kLargest = int64_t{1} << 53;
  const at::Tensor beyond = (integers.gt(kLargest) | integers.lt(-kLargest)).nonzero();
  if (beyond.size(0) == 0) return;
  const auto index = beyond[0][0].item<int64_t>();
  throw Error(path, fmt::format("the score at index {} is {}", index, integers[index].item<int64_t>()),
              "float64 is exact only up to 2^53: save differences or floats");
}

std::vector<double> read_array(const std::string& path, const StoredArray& array) {
  const std::vector<int64_t>& shape = array.shape();
  if (shape.empty() || std::any_of(shape.begin() + 1, shape.end(), [](int64_t axis) { return axis != 1; })) {
    throw Error(path, fmt::format("has shape ({})", fmt::join(shape, "×")),
                "give one score per input; poem posthoc computes scores from features");
  }
  const at::Tensor elements = array.read().flatten();
  if (elements.scalar_type() == at::kLong) check_exact(path, elements);
  const at::Tensor values = elements.to(at::kDouble);
  std::vector<double> scores(values.data_ptr<double>(), values.data_ptr<double>() + values.numel());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) throw Error(path, fmt::format("the score at index {} is NaN", i), "remove it");
  }
  return scores;
}

}  // namespace

std::vector<double> read_scores(const std::string& path, const std::string& set) {
  std::vector<double> scores = ends_with(path, ".npy")   ? read_array(path, open_npy(path))
                               : ends_with(path, ".npz") ? read_array(path, only_array(path))
                               : ends_with(path, ".csv") ? read_csv(path, set)
                                                         : read_text(path);
  if (scores.empty()) throw Error(path, "contains no scores", "write one score per input");
  return scores;
}

}  // namespace poem

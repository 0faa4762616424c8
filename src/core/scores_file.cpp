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
                "the file must hold one score an input");
  }
  if (std::isnan(*value)) throw Error(path, fmt::format("line {}: the score is NaN", line), "remove it");
  if (out_of_range && (*value == 0 || std::isinf(*value))) {
    throw Error(path, fmt::format("line {}: {} is beyond the range of float64", line, token.substr(0, 40)),
                "rescale the scores");
  }
  return *value;
}

void read_csv_line(const std::string& path, int64_t line, std::string_view text,
                   std::vector<double>& scores) {
  const size_t separator = text.find_last_of(",;\t");
  const std::string_view cell = trimmed(separator == text.npos ? text : text.substr(separator + 1));
  const bool header = line == 1 && !parse(cell);
  if (!header) scores.push_back(checked(path, line, cell));
}

void read_text_line(const std::string& path, int64_t line, std::string_view text,
                    std::vector<double>& scores) {
  while (!(text = trimmed(text)).empty()) {
    const std::string_view token = text.substr(0, text.find_first_of(kBlank));
    scores.push_back(checked(path, line, token));
    text.remove_prefix(token.size());
  }
}

std::vector<double> read_lines(const std::string& path) {
  const std::string content = read_file(path);
  const bool csv = ends_with(path, ".csv");
  std::vector<double> scores;
  int64_t line = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string_view text = trimmed(std::string_view(content).substr(begin, end - begin));
    begin = end + 1;
    ++line;
    if (text.empty()) continue;
    (csv ? read_csv_line : read_text_line)(path, line, text, scores);
  }
  return scores;
}

StoredArray only_array(const std::string& path) {
  const auto arrays = open_npz(path);
  if (arrays.size() == 1) return arrays.begin()->second;
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) names.push_back(name);
  throw Error(path, fmt::format("holds {} arrays: {}", names.size(), listed(names)),
              "save the scores alone, as an .npy or as the only array of an .npz");
}

// Whole numbers up to 2⁵³ have a float64 each; beyond, neighbours share one.
void check_exact(const std::string& path, const at::Tensor& integers) {
  constexpr int64_t kLargest = int64_t{1} << 53;
  const at::Tensor beyond = (integers.gt(kLargest) | integers.lt(-kLargest)).nonzero();
  if (beyond.size(0) == 0) return;
  const auto index = beyond[0][0].item<int64_t>();
  throw Error(path, fmt::format("the score at index {} is {}", index, integers[index].item<int64_t>()),
              "float64 tells whole numbers apart up to 2^53: save differences or floats");
}

std::vector<double> read_array(const std::string& path, const StoredArray& array) {
  const std::vector<int64_t>& shape = array.shape();
  if (shape.empty() || std::any_of(shape.begin() + 1, shape.end(), [](int64_t axis) { return axis != 1; })) {
    throw Error(path, fmt::format("has shape ({})", fmt::join(shape, "×")),
                "give one score an input; poem posthoc makes scores of features");
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

std::vector<double> read_scores(const std::string& path) {
  std::vector<double> scores = ends_with(path, ".npy")   ? read_array(path, open_npy(path))
                               : ends_with(path, ".npz") ? read_array(path, only_array(path))
                                                         : read_lines(path);
  if (scores.empty()) throw Error(path, "holds no scores", "write one score an input");
  return scores;
}

}  // namespace poem

#include "core/scores_file.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/file.h"
#include "core/npy.h"
#include "core/text.h"

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

std::optional<float> parse(std::string_view token) {
  const std::string text(token);
  char* end = nullptr;
  const float value = std::strtof(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) return std::nullopt;
  return value;
}

float checked(const std::string& path, int64_t line, std::string_view token) {
  const std::optional<float> value = parse(token);
  if (!value) {
    throw Error(path, fmt::format("line {}: '{}' is not a number", line, token.substr(0, 40)),
                "the file must hold one score an input");
  }
  if (std::isnan(*value)) throw Error(path, fmt::format("line {}: the score is NaN", line), "remove it");
  return *value;
}

void read_csv_line(const std::string& path, int64_t line, std::string_view text, std::vector<float>& scores) {
  const size_t separator = text.find_last_of(",;\t");
  const std::string_view cell = trimmed(separator == text.npos ? text : text.substr(separator + 1));
  const bool header = line == 1 && !parse(cell);
  if (!header) scores.push_back(checked(path, line, cell));
}

void read_text_line(const std::string& path, int64_t line, std::string_view text,
                    std::vector<float>& scores) {
  while (!(text = trimmed(text)).empty()) {
    const std::string_view token = text.substr(0, text.find_first_of(kBlank));
    scores.push_back(checked(path, line, token));
    text.remove_prefix(token.size());
  }
}

std::vector<float> read_lines(const std::string& path) {
  const std::string content = read_file(path);
  const bool csv = ends_with(path, ".csv");
  std::vector<float> scores;
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

at::Tensor only_array(const std::string& path) {
  const auto arrays = read_npz(path);
  if (arrays.size() == 1) return arrays.begin()->second;
  std::vector<std::string> names;
  for (const auto& [name, array] : arrays) names.push_back(name);
  throw Error(path, fmt::format("holds {} arrays: {}", names.size(), listed(names)),
              "save the scores alone, as an .npy or as the only array of an .npz");
}

std::vector<float> read_array(const std::string& path, const at::Tensor& array) {
  if (array.dim() == 0 || array.numel() != array.size(0)) {
    throw Error(path, fmt::format("has shape ({})", fmt::join(array.sizes(), "×")),
                "give one score an input; poem posthoc makes scores of features");
  }
  const at::Tensor values = array.to(at::kFloat).contiguous();
  std::vector<float> scores(values.data_ptr<float>(), values.data_ptr<float>() + values.numel());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) throw Error(path, fmt::format("the score at index {} is NaN", i), "remove it");
  }
  return scores;
}

}  // namespace

std::vector<float> read_scores(const std::string& path) {
  std::vector<float> scores = ends_with(path, ".npy")   ? read_array(path, read_npy(path))
                              : ends_with(path, ".npz") ? read_array(path, only_array(path))
                                                        : read_lines(path);
  if (scores.empty()) throw Error(path, "holds no scores", "write one score an input");
  return scores;
}

}  // namespace poem

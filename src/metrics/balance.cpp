#include "poem/balance.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "poem/error.h"
#include "poem/random.h"

namespace poem {
namespace {

constexpr int64_t kMost = 1000000;

// 0 if the text is not a whole number of 1 to kMost.
int64_t part_of_ratio(const std::string& text) {
  const int64_t number = parse_number<int64_t>(text).value_or(0);
  return number >= 1 && number <= kMost ? number : 0;
}

std::vector<double> choose(const std::vector<double>& scores, int64_t count, uint64_t seed,
                           const char* side) {
  Stream stream(seed, side);
  std::vector<double> chosen;
  for (const int64_t i : sample(static_cast<int64_t>(scores.size()), count, stream))
    chosen.push_back(scores[i]);
  return chosen;
}

}  // namespace

std::optional<Balance> parse_balance(const std::string& text, uint64_t seed) {
  if (text.empty()) return std::nullopt;
  const size_t colon = text.find(':');
  const int64_t id = part_of_ratio(text.substr(0, colon));
  const int64_t ood = colon == text.npos ? 0 : part_of_ratio(text.substr(colon + 1));
  if (id == 0 || ood == 0) {
    throw Error(
        "balance", fmt::format("'{}' is not a ratio", text),
        fmt::format("give option balance as ID:OOD in whole numbers from 1 to {}, such as 1:1", kMost));
  }
  return Balance{id, ood, seed};
}

OodMetrics ood_metrics(const std::vector<double>& id, const std::vector<double>& ood,
                       const std::optional<Balance>& balance) {
  if (!balance) return ood_metrics(id, ood);
  const int64_t times = std::min(static_cast<int64_t>(id.size()) / balance->id,
                                 static_cast<int64_t>(ood.size()) / balance->ood);
  if (times == 0) {
    throw Error("balance",
                fmt::format("{} ID and {} OOD scores are too few for {}:{}", id.size(), ood.size(),
                            balance->id, balance->ood),
                "choose a ratio of smaller numbers");
  }
  return ood_metrics(choose(id, times * balance->id, balance->seed, "balance-id"),
                     choose(ood, times * balance->ood, balance->seed, "balance-ood"));
}

}  // namespace poem

#include "train/epoch_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

namespace poem {
namespace {

using nlohmann::json;

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

// −|wᵀφ|, the sign it has everywhere; metrics.jsonl has the magnitude too, for its older readers.
std::optional<double> boundary_score(const std::optional<double>& abs_logit) {
  return abs_logit ? std::optional<double>(-*abs_logit) : std::nullopt;
}

// The optional members of MiningDiagnostics under their names.
template <class Diagnostics, class Function>
void each_member(Diagnostics& d, Function visit) {
  visit("pool_abs_logit", d.pool_abs_logit);
  visit("mined_abs_logit", d.mined_abs_logit);
  visit("pool_p_outlier", d.pool_p_outlier);
  visit("mined_p_outlier", d.mined_p_outlier);
  visit("pool_length", d.pool_length);
  visit("mined_length", d.mined_length);
  visit("pool_clusters", d.pool_clusters);
  visit("mined_clusters", d.mined_clusters);
  visit("spread", d.spread);
  visit("draw_overlap", d.draw_overlap);
  visit("last_overlap", d.last_overlap);
  visit("recall", d.recall);
  visit("recall_error", d.recall_error);
}

template <class Diagnostics, class Function>
void each_list(Diagnostics& d, Function visit) {
  visit("classes", d.classes);
  visit("sources", d.sources);
}

// "mined from photos 31.2 %, world:outliers 68.8 %"
std::string sources_text(const std::vector<ClassShare>& sources) {
  std::vector<std::string> shares;
  for (const ClassShare& share : sources)
    shares.push_back(fmt::format("{} {:.1f} %", share.name, 100 * share.mined));
  return fmt::format("mined from {}", fmt::join(shares, ", "));
}

// "4 ranks sent 58.1 kB each to mine, 0.9 MB for the posterior, 81.3 MB to train", and the slowest rank if it
// holds up the others.
std::string to_text(const TeamReport& team) {
  constexpr double kSlow = 1.25, kSeconds = 1;
  const auto size = [](int64_t bytes) {
    const auto amount = static_cast<double>(bytes);
    return amount < 1e6 ? fmt::format("{:.1f} kB", amount * 1e-3) : fmt::format("{:.1f} MB", amount * 1e-6);
  };
  std::string text =
      fmt::format("{} ranks sent {} each to mine, {} for the posterior, {} to train", team.seconds.size(),
                  size(team.mine_bytes), size(team.queue_bytes), size(team.train_bytes));
  const auto slowest = std::max_element(team.seconds.begin(), team.seconds.end());
  const double others = (std::accumulate(team.seconds.begin(), team.seconds.end(), 0.0) - *slowest) /
                        static_cast<double>(team.seconds.size() - 1);
  if (*slowest > kSlow * others && *slowest > others + kSeconds) {
    text += fmt::format("  slow: rank {} worked {:.1f} s, the others {:.1f} s",
                        slowest - team.seconds.begin(), *slowest, others);
  }
  return text;
}

}  // namespace

json to_json(const MiningDiagnostics& diagnostics) {
  json j = {{"distinct_images", diagnostics.distinct_images}};
  each_member(diagnostics, [&](const char* name, const auto& value) { j[name] = or_null(value); });
  j["pool_boundary_score"] = or_null(boundary_score(diagnostics.pool_abs_logit));
  j["mined_boundary_score"] = or_null(boundary_score(diagnostics.mined_abs_logit));
  each_list(diagnostics, [&](const char* name, const std::vector<ClassShare>& shares) {
    for (const ClassShare& share : shares)
      j[name].push_back({{"name", share.name}, {"pool", share.pool}, {"mined", share.mined}});
  });
  return j;
}

MiningDiagnostics diagnostics_from(const json& j) {
  MiningDiagnostics diagnostics;
  j.at("distinct_images").get_to(diagnostics.distinct_images);
  each_member(diagnostics, [&](const char* name, auto& value) {
    if (j.contains(name) && !j.at(name).is_null()) value = j.at(name).get<double>();  // older ones lack some
  });
  each_list(diagnostics, [&](const char* name, std::vector<ClassShare>& shares) {
    for (const json& share : j.value(name, json::array()))
      shares.push_back({share.at("name"), share.at("pool"), share.at("mined")});
  });
  return diagnostics;
}

json to_json(const EpochReport& r) {
  json j = {{"epoch", r.epoch},
            {"learning_rate", r.learning_rate},
            {"loss", r.loss},
            {"classification_loss", r.classification_loss},
            {"regularisation", r.regularisation},
            {"id_energy", r.id_energy},
            {"outlier_energy", or_null(r.outlier_energy)},
            {"train_accuracy", or_null(r.train_accuracy)},
            {"validation_accuracy", or_null(r.validation_accuracy)},
            {"mining", r.mining ? to_json(*r.mining) : json(nullptr)},
            {"seconds", {{"mine", r.mine_seconds}, {"train", r.train_seconds}, {"queue", r.queue_seconds}}}};
  if (r.team) {
    j["team"]["bytes"] = {
        {"mine", r.team->mine_bytes}, {"train", r.team->train_bytes}, {"queue", r.team->queue_bytes}};
    for (size_t rank = 0; rank < r.team->seconds.size(); ++rank)
      j["team"]["seconds"][std::to_string(rank)] = r.team->seconds[rank];
  }
  return j;
}

std::string figures_text(const EpochReport& r) {
  std::string text = fmt::format("loss {:.4f}", r.loss);
  if (r.train_accuracy) {
    text += fmt::format("  accuracy {:.1f} %  energy ID {:.2f}", 100 * *r.train_accuracy, r.id_energy);
  }
  if (r.outlier_energy) text += fmt::format(", outliers {:.2f}", *r.outlier_energy);
  if (r.mining && r.mining->mined_abs_logit) {
    text +=
        fmt::format("  boundary score mined {:.2f}, pool {:.2f}", *boundary_score(r.mining->mined_abs_logit),
                    *boundary_score(r.mining->pool_abs_logit));
  }
  if (r.mining && r.mining->recall) {
    text += fmt::format("  first stage found {:.1f} ± {:.1f} %", 100 * *r.mining->recall,
                        100 * *r.mining->recall_error);
  }
  if (r.mining && !r.mining->sources.empty()) text += "  " + sources_text(r.mining->sources);
  return text;
}

std::string to_text(const EpochReport& r, int64_t epochs) {
  std::string text = fmt::format("epoch {:>3}/{}  {}  {:.1f} s", r.epoch, epochs, figures_text(r),
                                 r.mine_seconds + r.train_seconds + r.queue_seconds);
  if (r.team) text += "  " + to_text(*r.team);
  return text;
}

}  // namespace poem

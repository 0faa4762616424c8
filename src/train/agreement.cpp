#include "train/agreement.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <zlib.h>

#include <nlohmann/json.hpp>

#include "core/runtime.h"
#include "poem/error.h"
#include "poem/version.h"
#include "train/checkpoint.h"
#include "train/config_keys.h"

namespace poem {
namespace {

using nlohmann::ordered_json;

// A checksum of all images of a small set, and of some of a large one, spread over all of it.
template <class Images>
std::string sample_checksum(const Images& images, const Augmentation& augmentation) {
  constexpr int64_t kMost = 1024;
  std::vector<Crop> crops;
  for (int64_t i = 0; i < std::min(kMost, images.size()); ++i)
    crops.push_back({i * images.size() / std::min(kMost, images.size()), 0});
  if (crops.empty()) return "none";
  const at::Tensor pixels =
      cut(images, crops.data(), static_cast<int64_t>(crops.size()), augmentation).contiguous();
  return fmt::format(
      "{:08x}", ::crc32(0, static_cast<const Bytef*>(pixels.data_ptr()), static_cast<uInt>(pixels.nbytes())));
}

std::string checksum_of(const Network::Named& tensors) {
  uLong sum = 0;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor values = tensor.detach().cpu().contiguous();
    sum = ::crc32(sum, static_cast<const Bytef*>(values.data_ptr()), static_cast<uInt>(values.nbytes()));
  }
  return fmt::format("{:08x}", sum);
}

// What must be the same, under the name by which a message calls it.
ordered_json facts(const Trainer& trainer, const TrainingData& data) {
  const Runtime r = runtime();
  ordered_json facts = {{"poem", version()}, {"LibTorch", r.libtorch}, {"CPU capability", r.cpu_capability}};
  Config config = trainer.config();
  config.data.folder.clear();  // each machine may have the data in another place
  for (const Key& key : keys(config)) facts[key.name] = value_text(key);
  facts["number of images"] = data_sizes(data);
  facts["checksum of labels"] = checksum_of({{"labels", data.id.labels}});
  facts["checksum of ID images"] = sample_checksum(data.id, data.id_cut);
  facts["checksum of outliers"] = sample_checksum(data.outliers, data.outlier_cut);
  facts["epochs begun"] = trainer.begun();
  // New weights are copied from rank 0; those of a resumed run come from each machine's own files.
  if (trainer.begun() > 0) facts["checksum of weights"] = checksum_of(trainer.network()->parameters());
  return facts;
}

}  // namespace

void check_agreement(const Trainer& trainer, const TrainingData& data) {
  const Team& team = trainer.team();
  if (team.size() == 1) return;
  const std::vector<std::string> all = team.texts("facts", facts(trainer, data).dump());
  const ordered_json first = ordered_json::parse(all[0]);
  for (size_t rank = 1; rank < all.size(); ++rank) {
    const ordered_json other = ordered_json::parse(all[rank]);
    for (const auto& [name, value] : first.items()) {
      const ordered_json theirs = other.value(name, ordered_json("nothing"));
      if (theirs == value) continue;
      throw Error(fmt::format("rank {}", rank),
                  fmt::format("has {} {}, rank 0 has {}", name, theirs.dump(), value.dump()),
                  "start all processes with the same poem, config, data and, to resume, run folder");
    }
  }
}

}  // namespace poem

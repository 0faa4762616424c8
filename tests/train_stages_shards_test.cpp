// Mining in two stages from shards on disk, one of which is changed before some of the walks over the pool.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "expect_error.h"
#include "images/device_images.h"
#include "images/pool.h"
#include "mining/mine.h"
#include "poem/mining.h"
#include "poem/network.h"
#include "poem/read.h"
#include "readers/shards.h"
#include "temporary_folder.h"
#include "train/feature_extractor.h"

namespace poem {
namespace {

constexpr int64_t kImages = 120;
// Over the pool: two that fit the first stage, the first stage, the candidates, and the check of both.
constexpr int kWalks = 5;
constexpr const char* kVictim = "00001.poem";

class StagesOnShards : public ::testing::Test {
 protected:
  StagesOnShards() {
    const at::Tensor pixels = at::randint(256, {kImages, 3, 16, 16}, at::kByte);
    ShardedWriter writer(folder / "pool", 3 * 16 * 16 * 48, /*append=*/false);
    writer.add(pixels);
    writer.finish({});
    NetworkSpec spec;
    spec.name = "wideresnet";
    spec.depth = 10;
    spec.width = 1;
    spec.classes = 3;
    network = make_network(spec, 1);
  }

  // Calls `before` with the number of each walk.
  Mined mine_with(const std::function<void(int)>& before) const {
    const ImageSet images = read_images(folder / "pool");
    const DeviceImages device(images, at::kCPU);
    const FeatureExtractor extract(*network, at::kCPU, 16, /*bf16=*/false);
    int walks = 0;
    const auto walk = [&](Scale scale) {
      return [&, scale](const std::vector<Crop>& crops, const FeatureVisit& visit) {
        before(walks++);
        Augmentation cut;
        cut.size = 16;
        extract(device, crops, cut, visit, "", scale);
      };
    };
    MiningTask task;
    task.pool = draw_pool(kImages, kImages, 1, 0);
    task.settings.select = 20;
    task.settings.candidates = 0.5;
    task.network.features = walk(Scale::kFull);
    task.network.first_look = walk(Scale::kHalf);
    task.network.first_look_count = network->feature_count();
    const Posterior prior(Statistics(network->feature_count()), {});
    task.posterior = &prior;
    return mine(*make_miner("thompson"), task, {});
  }

  std::string victim() const { return folder / (std::string("pool/") + kVictim); }

  TemporaryFolder folder;
  std::shared_ptr<Network> network;
};

TEST_F(StagesOnShards, MineWhatTheyShould) {
  int walks = 0;
  EXPECT_EQ(mine_with([&](int walk) { walks = walk + 1; }).crops.size(), 20u);
  EXPECT_EQ(walks, kWalks);
}

TEST_F(StagesOnShards, NoticeAShardThatIsCutShort) {
  for (int when = 0; when < kWalks; ++when) {
    const std::string path = victim(), whole = path + ".whole";
    std::filesystem::copy_file(path, whole);
    expect_error(
        [&] {
          mine_with([&](int walk) {
            if (walk == when) std::filesystem::resize_file(path, 5000);
          });
        },
        {kVictim, "was changed while poem was reading it"});
    std::filesystem::rename(whole, path);
  }
}

TEST_F(StagesOnShards, NoticeAShardThatIsWrittenTo) {
  for (int when = 0; when < kWalks; ++when) {
    expect_error(
        [&] {
          mine_with([&](int walk) {
            if (walk != when) return;
            std::filesystem::last_write_time(
                victim(), std::filesystem::file_time_type::clock::now() + std::chrono::seconds(when + 1));
          });
        },
        {kVictim, "was changed while poem was reading it"});
  }
}

// What is mapped stays whole.
TEST_F(StagesOnShards, GoOnWithoutAShardThatIsDeletedMeanwhile) {
  const std::vector<Crop> calm = mine_with([](int) {}).crops;
  const std::vector<Crop> crops = mine_with([&](int walk) {
                                    if (walk == 2) std::filesystem::remove(victim());
                                  }).crops;
  ASSERT_EQ(crops.size(), calm.size());
  for (size_t i = 0; i < crops.size(); ++i) EXPECT_EQ(crops[i].seed, calm[i].seed);
  expect_error([&] { mine_with([](int) {}); }, {kVictim, "is missing"});
}

}  // namespace
}  // namespace poem

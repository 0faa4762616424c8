#include "core/gpus.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "temporary_folder.h"

namespace poem {
namespace {

TEST(Gpus, AreThoseThatTheVariableNames) {
  ::setenv("CUDA_VISIBLE_DEVICES", "2,GPU-1f,7", 1);
  const std::vector<std::string> gpus = visible_gpus();
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_TRUE(visible_gpus().empty());
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(gpus, (std::vector<std::string>{"2", "GPU-1f", "7"}));
  EXPECT_EQ(gpu_variable(gpus, 1), "CUDA_VISIBLE_DEVICES=GPU-1f");
  EXPECT_EQ(gpu_variable(gpus, 3), "CUDA_VISIBLE_DEVICES=2") << "round and round";
}

// A container may have any GPUs of its machine, under their numbers there. CUDA counts them from 0.
TEST(Gpus, AreCountedWhateverTheirNumbers) {
  using Names = std::vector<std::string>;
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const auto gpus_of = [](const Names& files) {
    const TemporaryFolder devices;
    for (const std::string& file : files) devices.put(file, "");
    return visible_gpus(devices.path());
  };
  EXPECT_EQ(gpus_of({"nvidia2", "nvidia3"}), Names({"0", "1"}));
  EXPECT_EQ(gpus_of({"nvidia0", "nvidia3", "nvidia12"}), Names({"0", "1", "2"}));
  EXPECT_EQ(gpus_of({"nvidiactl", "nvidia-uvm", "nvidia-caps/nvidia-cap1", "nvidia", "xnvidia0", "null"}),
            Names());
  EXPECT_EQ(visible_gpus("/absent"), Names());
}

}  // namespace
}  // namespace poem

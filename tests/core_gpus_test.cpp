#include "core/gpus.h"

#include <gtest/gtest.h>

#include <cstdlib>

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

}  // namespace
}  // namespace poem

// The tests that need a GPU. Without one they are skipped with a message, and that is no failure.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (!at::hasCUDA()) {
    std::puts("no GPU here: the GPU tests are skipped");
    return 0;
  }
  return RUN_ALL_TESTS();
}

// main of the test programs for a machine with a GPU. Without driver or device they say so and exit 4.
#include <gtest/gtest.h>

#include <cstdio>

#include "cuda/runtime/memory.h"
#include "reference/tensor/error.h"

int main(int argc, char** argv) {
  try {
    std::printf("on %s\n", mtpcheck::cuda::require_device().c_str());
    ::testing::InitGoogleTest(&argc, argv);  // only now: it reads golden/
  } catch (const mtpcheck::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.failure());
  }
  return RUN_ALL_TESTS();
}

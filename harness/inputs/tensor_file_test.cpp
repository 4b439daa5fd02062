#include "harness/inputs/tensor_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/checkpoint/scratch_directory.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

const std::string kTraces = MTPCHECK_GOLDEN_DIR "/tiny-hy4/traces/";

TEST(TensorFile, Hdf5AndSafetensorsOfOnePassageHoldTheSameNumbers) {
  const TensorFile a = open_tensor_file(kTraces + "passage-00.safetensors");
  const TensorFile b = open_tensor_file(kTraces + "passage-00.h5");
  for (const char* name : {"input_ids", "positions"}) {
    ASSERT_NE(b.find(name), nullptr);
    EXPECT_EQ(to_i64(*a.find(name)), to_i64(*b.find(name))) << name;
  }
  for (const char* name : {"target_hidden", "target_logits"}) {
    EXPECT_EQ(a.find(name)->shape, b.find(name)->shape);
    EXPECT_EQ(to_f64(*a.find(name)), to_f64(*b.find(name))) << name;
  }
  EXPECT_EQ(a.find("no such tensor"), nullptr);
}

TEST(TensorFile, WhatIsNeitherIsRefused) {
  const ScratchDirectory scratch;
  EXPECT_THROW(open_tensor_file(scratch.path() / "absent"), Error);
  EXPECT_THROW(open_tensor_file(scratch.write("text", "this is neither of the two")), Error);
  EXPECT_THROW(open_tensor_file(scratch.write("h5", "\x89HDF\r\n\x1a\n and no more")), Error);
}

}  // namespace
}  // namespace mtpcheck

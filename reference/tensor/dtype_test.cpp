#include "reference/tensor/dtype.h"

#include <gtest/gtest.h>

#include <limits>

namespace mtpcheck {
namespace {

TEST(Dtype, SafetensorsNamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(Dtype::f4_e2m1); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(dtype_from_safetensors(safetensors_name(dtype)), dtype);
    EXPECT_EQ(dtype_from_torch(torch_name(dtype)), dtype);
  }
}

TEST(Dtype, UnknownNamesAreRefused) {
  EXPECT_FALSE(dtype_from_safetensors("f32"));
  EXPECT_FALSE(dtype_from_safetensors("F128"));
  EXPECT_FALSE(dtype_from_torch(""));
}

TEST(Dtype, ByteSizeRefusesOverflowAndPartialBytes) {
  EXPECT_EQ(byte_size(Dtype::f4_e2m1, 6), 3U);
  EXPECT_FALSE(byte_size(Dtype::f4_e2m1, 5));
  EXPECT_FALSE(byte_size(Dtype::f64, std::numeric_limits<std::size_t>::max() / 32));
  EXPECT_EQ(byte_size(Dtype::bf16, 0), 0U);
}

}  // namespace
}  // namespace mtpcheck

#include "cuda/simt/mma.h"

#include <cuda_fp8.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "cuda/simt/machine/block.h"

namespace simt {
namespace {

using machine::Block;

constexpr unsigned all_lanes = 0xFFFFFFFFu;
constexpr int rows = 16;
constexpr int columns = 8;

/// One lane's part in a product.
struct MmaDeposit {
  const FragmentA* a;
  const FragmentB* b;
  FragmentD* d;
};

void require_whole_warp(const Block& block, unsigned mask, unsigned lane) {
  if (mask != all_lanes)
    block.fail_lane(lane, fmt::format("tensor-core operation by the lanes {:#010x}: it takes all 32", mask));
}

float bf16_element(unsigned bits, int index) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits >> (16 * index) & 0xFFFFu) << 16);
}

float e4m3_element(unsigned bits, int index) {
  __nv_fp8_e4m3 value;
  value.__x = static_cast<__nv_fp8_storage_t>(bits >> (8 * index));
  return static_cast<float>(value);
}

/// `PerRegister` elements lie in a register; a row of A has k = 8 · PerRegister of them.
template <int PerRegister, float (*element)(unsigned, int)>
void complete_product(Block& block, void* const* deposits, unsigned mask) {
  constexpr int k = 8 * PerRegister;
  require_whole_warp(block, mask, static_cast<unsigned>(std::countr_zero(mask)));
  float a[rows][k];
  float b[k][columns];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& mine = *static_cast<const MmaDeposit*>(deposits[lane]);
    const int group = lane / 4;
    const int first = lane % 4 * PerRegister;
    for (int r = 0; r < 4; ++r)
      for (int i = 0; i < PerRegister; ++i)
        a[group + 8 * (r & 1)][first + i + k / 2 * (r / 2)] = element(mine.a->x[r], i);
    for (int r = 0; r < 2; ++r)
      for (int i = 0; i < PerRegister; ++i) b[first + i + k / 2 * r][group] = element(mine.b->x[r], i);
  }
  for (int lane = 0; lane < 32; ++lane) {
    FragmentD& d = *static_cast<const MmaDeposit*>(deposits[lane])->d;
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2);
      const int column = lane % 4 * 2 + (i & 1);
      for (int j = 0; j < k; ++j) d.x[i] += a[row][j] * b[j][column];
    }
  }
}

/// One lane's part in ldmatrix.
struct MatrixDeposit {
  const void* row;
  FragmentA* result;
};

template <bool transposed>
void complete_load(Block& block, void* const* deposits, unsigned mask) {
  require_whole_warp(block, mask, static_cast<unsigned>(std::countr_zero(mask)));
  std::uint16_t matrices[4][8][8];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const void* row = static_cast<const MatrixDeposit*>(deposits[lane])->row;
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0)
      block.fail_lane(lane, fmt::format("load_matrices from {}: a row's address is a multiple of 16", row));
    if (!block.shared().contains(row))
      block.fail_lane(lane, fmt::format("load_matrices from {}: that is not the block's shared memory", row));
    std::memcpy(matrices[lane / 8][lane % 8], row, 16);
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    FragmentA& result = *static_cast<const MatrixDeposit*>(deposits[lane])->result;
    const unsigned g = lane / 4;
    const unsigned t = lane % 4 * 2;
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned low = transposed ? matrices[m][t][g] : matrices[m][g][t];
      const unsigned high = transposed ? matrices[m][t + 1][g] : matrices[m][g][t + 1];
      result.x[m] = low | high << 16;
    }
  }
}

void multiply(const char* operation, FragmentD& d, const FragmentA& a, const FragmentB& b, Block::Completion complete,
              const Location& where) {
  MmaDeposit mine{&a, &b, &d};
  machine::current_block(operation).wait_for_warp({operation, where}, all_lanes, &mine, complete);
}

void load(const char* operation, FragmentA& result, const void* row, Block::Completion complete, const Location& where,
          const void* caller = __builtin_return_address(0)) {
  machine::current_block(operation).observe(row, 16, checking::Kind::read, reinterpret_cast<std::uintptr_t>(caller));
  MatrixDeposit mine{row, &result};
  machine::current_block(operation).wait_for_warp({operation, where}, all_lanes, &mine, complete);
}

}  // namespace

void mma_bf16(FragmentD& d, const FragmentA& a, const FragmentB& b, const Location& where) {
  multiply("mma_bf16", d, a, b, complete_product<2, bf16_element>, where);
}

void mma_e4m3(FragmentD& d, const FragmentA& a, const FragmentB& b, const Location& where) {
  multiply("mma_e4m3", d, a, b, complete_product<4, e4m3_element>, where);
}

void load_matrices(FragmentA& result, const void* row, const Location& where) {
  load("load_matrices", result, row, complete_load<false>, where);
}

void load_matrices_transposed(FragmentA& result, const void* row, const Location& where) {
  load("load_matrices_transposed", result, row, complete_load<true>, where);
}

}  // namespace simt

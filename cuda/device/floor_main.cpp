// cuda_floor: prints the tables of cuda/README.md. Runs anywhere.
#include <fmt/format.h>

#include "cuda/device/floor.h"

namespace {

using namespace mtpcheck::cuda;

void print_kernels(int tokens, int keys) {
  const DeviceRates rates;
  const auto narrow = decode_costs(hy4_preview(), WeightStorage::fp8_block, tokens, keys);
  const auto wide = decode_costs(hy4_preview(), WeightStorage::bf16, tokens, keys);
  fmt::print("T = {}, {} keys\n\n", tokens, keys);
  fmt::print(
      "| kernel | GFLOP | MB, BF16 | µs, BF16 | MB, FP8 | µs, FP8 | achieved |\n|---|---|---|---|---|---|---|\n");
  const auto row = [&](const std::string& name, double flops, double wide_bytes, double wide_seconds, double bytes,
                       double seconds) {
    fmt::print("| {} | {:.3f} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | not measured |\n", name, flops / 1e9,
               wide_bytes / 1e6, wide_seconds * 1e6, bytes / 1e6, seconds * 1e6);
  };
  double flops = 0;
  double bytes = 0;
  double wide_bytes = 0;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    row(wide[i].kernel, wide[i].flops, wide[i].bytes, wide[i].seconds(rates), narrow[i].bytes,
        narrow[i].seconds(rates));
    flops += wide[i].flops;
    wide_bytes += wide[i].bytes;
    bytes += narrow[i].bytes;
  }
  row("**step**", flops, wide_bytes, total_seconds(wide, rates), bytes, total_seconds(narrow, rates));
}

void print_steps(int keys) {
  const DeviceRates rates;
  fmt::print("\n| T | experts in use | ms, BF16 | ms, FP8 block | ms, MXFP8 | achieved |\n|---|---|---|---|---|---|\n");
  for (const int tokens : {1, 2, 4, 8, 16}) {
    const auto milliseconds = [&](WeightStorage storage) {
      return 1e3 * total_seconds(decode_costs(hy4_preview(), storage, tokens, keys), rates);
    };
    fmt::print("| {} | {:.1f} | {:.3f} | {:.3f} | {:.3f} | not measured |\n", tokens,
               expected_experts(hy4_preview(), tokens), milliseconds(WeightStorage::bf16),
               milliseconds(WeightStorage::fp8_block), milliseconds(WeightStorage::mxfp8));
  }
}

}  // namespace

int main() {
  constexpr int keys = 8192;
  print_kernels(1, keys);
  print_steps(keys);
}

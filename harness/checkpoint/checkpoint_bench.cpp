// Opening a checkpoint of the size of Hy4-preview with its experts split and quantised: 131 shards, 125,000 tensors.
// The shards are sparse files, so that only headers take room.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/scratch_directory.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kShards = 131;
constexpr std::size_t kTensors = 125'000;

void write_large_checkpoint(const ScratchDirectory& scratch) {
  std::string weight_map;
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, kShards);
    std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
    std::uint64_t at = 0;
    for (std::size_t i = shard; i < kTensors; i += kShards) {
      const bool scale = i % 2 == 1;
      const std::string name = fmt::format("model.layers.{}.mlp.experts.{}.{}_proj.{}", i / 1600, i / 6 % 256,
                                           i % 6 < 2   ? "gate"
                                           : i % 6 < 4 ? "up"
                                                       : "down",
                                           scale ? "weight_scale_inv" : "weight") +
                               (i / 1536 % 2 == 0 ? "" : fmt::format(".{}", i));
      const std::uint64_t bytes = scale ? 4 * 16 * 48 : 2048 * 6144;
      header += fmt::format(",\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", name,
                            scale ? "F32" : "F8_E4M3", scale ? "16,48" : "2048,6144", at, at + bytes);
      at += bytes;
      weight_map += fmt::format("{}\n\"{}\": \"{}\"", weight_map.empty() ? "" : ",", name, file);
    }
    const auto path = scratch.write(file, safetensors_bytes(header + "}", 0));
    std::filesystem::resize_file(path, std::filesystem::file_size(path) + at);
  }
  scratch.write("model.safetensors.index.json", "{\"weight_map\": {" + weight_map + "}}");
  scratch.write("config.json", "{}");
}

void open_large_checkpoint(benchmark::State& state) {
  const ScratchDirectory scratch;
  write_large_checkpoint(scratch);
  std::size_t tensors = 0;
  while (state.KeepRunning()) {
    const Checkpoint checkpoint = open_checkpoint(scratch.path());
    if (!checkpoint.problems.empty()) state.SkipWithError(checkpoint.problems.front().message.c_str());
    tensors = checkpoint.headers.tensors.size();
  }
  state.counters["tensors"] = static_cast<double>(tensors);
}
BENCHMARK(open_large_checkpoint)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mtpcheck

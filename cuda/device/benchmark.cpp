// cuda_bench [--json FILE]: a decode step of Hy4-preview's MTP layer against its floor, on the device that is
// there.
//
// The step is one CUDA graph, timed with events, the median of 30 launches; its weights are many times the L2 cache, so
// every launch reads them from memory. Parts are timed one by one with the L2 cache flushed before each, so that theirs
// do too; what surrounds a launch costs a part about a microsecond that the graph's step does not have. Exits 4 without
// a device.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cuda/device/floor.h"
#include "cuda/device/synthetic_step.h"
#include "cuda/runtime/graph.h"
#include "cuda/runtime/memory.h"
#include "cuda/runtime/status.h"
#include "reference/tensor/error.h"

namespace mtpcheck::cuda::inline SIMT_BACKEND {
namespace {

constexpr int kKeys = 8192;
constexpr int kMostTokens = 16;
constexpr int kRepetitions = 30;
constexpr std::size_t kFlushBytes = std::size_t{256} << 20;

class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream stream) const { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// Seconds from `start` to this one, both passed.
  double since(const Event& start) const {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double step_seconds(Stream stream, const SyntheticStep& step, int tokens) {
  const Graph graph(stream, [&] { step.enqueue(tokens); });
  const Event start;
  const Event end;
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions + 3; ++i) {
    start.record(stream);
    graph.launch(stream);
    end.record(stream);
    synchronize(stream);
    if (i >= 3) seconds.push_back(end.since(start));
  }
  return median(seconds);
}

std::map<std::string, double> part_seconds(Stream stream, const SyntheticStep& step, int tokens) {
  const Buffer<std::uint8_t> flush(kFlushBytes);
  std::map<std::string, std::vector<double>> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    std::vector<std::pair<std::string, std::pair<std::unique_ptr<Event>, std::unique_ptr<Event>>>> parts;
    const auto close = [&] {
      if (!parts.empty()) parts.back().second.second->record(stream);
    };
    step.enqueue(tokens, {.before_part = [&](std::string_view name) {
                   close();
                   fill_bytes(stream, flush.data(), 0, kFlushBytes);
                   parts.emplace_back(name, std::pair{std::make_unique<Event>(), std::make_unique<Event>()});
                   parts.back().second.first->record(stream);
                 }});
    close();
    synchronize(stream);
    for (const auto& [name, events] : parts) seconds[name].push_back(events.second->since(*events.first));
  }
  std::map<std::string, double> medians;
  for (const auto& [name, values] : seconds) medians[name] = median(values);
  return medians;
}

nlohmann::json benchmark(Stream stream, WeightStorage storage, const std::string& name) {
  const DeviceRates rates;
  SyntheticStep step(stream, hy4_preview(), storage, kMostTokens, kKeys);
  nlohmann::json out;
  fmt::print("\n{} weights, {} keys a sequence\n| T | ms | floor, ms | of the floor's rate |\n|---|---|---|---|\n",
             name, kKeys);
  for (const int tokens : {1, 2, 4, 8, 16}) {
    step.prepare(tokens);
    const double seconds = step_seconds(stream, step, tokens);
    const double floor = total_seconds(decode_costs(hy4_preview(), storage, tokens, kKeys), rates);
    fmt::print("| {} | {:.3f} | {:.3f} | {:.0f} % |\n", tokens, seconds * 1e3, floor * 1e3, 100 * floor / seconds);
    out["steps"].push_back({{"tokens", tokens}, {"seconds", seconds}, {"floor_seconds", floor}});
  }
  for (const int tokens : {1, kMostTokens}) {
    step.prepare(tokens);
    const auto parts = part_seconds(stream, step, tokens);
    fmt::print("\n{} weights, T = {}, part by part\n| part | µs | floor, µs |\n|---|---|---|\n", name, tokens);
    for (const auto& cost : decode_costs(hy4_preview(), storage, tokens, kKeys)) {
      const auto found = parts.find(cost.kernel);
      if (found == parts.end()) continue;
      fmt::print("| {} | {:.1f} | {:.1f} |\n", cost.kernel, found->second * 1e6, cost.seconds(rates) * 1e6);
      out["parts"].push_back({{"tokens", tokens},
                              {"part", cost.kernel},
                              {"seconds", found->second},
                              {"floor_seconds", cost.seconds(rates)},
                              {"bytes", cost.bytes},
                              {"flops", cost.flops}});
    }
  }
  return out;
}

void run(const char* json_file) {
  const std::string device = require_device();
  fmt::print("{}\n", device);
  const OwnedStream stream;
  nlohmann::json out{{"device", device}, {"keys", kKeys}, {"libtorch_eager", "not measured"}};
  out["bf16"] = benchmark(stream.get(), WeightStorage::bf16, "BF16");
  out["fp8_block"] = benchmark(stream.get(), WeightStorage::fp8_block, "FP8 block");
  out["mxfp8"] = benchmark(stream.get(), WeightStorage::mxfp8, "MXFP8");
  if (json_file == nullptr) return;
  std::FILE* const file = std::fopen(json_file, "w");
  if (file == nullptr) throw environment_error(fmt::format("{} cannot be written", json_file));
  fmt::print(file, "{}\n", out.dump(1));
  std::fclose(file);
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND

int main(int argc, char** argv) {
  try {
    const bool with_file = argc == 3 && std::string_view(argv[1]) == "--json";
    if (argc != 1 && !with_file) throw mtpcheck::usage_error("usage: cuda_bench [--json FILE]");
    mtpcheck::cuda::run(with_file ? argv[2] : nullptr);
  } catch (const mtpcheck::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.failure());
  }
}

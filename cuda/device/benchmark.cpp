// cuda_bench [--json FILE] [--eager FILE]: a decode step of Hy4-preview's MTP layer against its floor, on the device
// that is there, and against LibTorch's eager step as eager/bench.py has measured it (--eager).
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
#include "cuda/device/step_table.h"
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

/// `storage` by its name in the JSON, `name` in the table.
nlohmann::json benchmark(Stream stream, WeightStorage storage, const std::string& key, const std::string& name,
                         const EagerFigures& eager) {
  const DeviceRates rates;
  SyntheticStep step(stream, hy4_preview(), storage, kMostTokens, kKeys);
  nlohmann::json out;
  std::vector<MeasuredStep> steps;
  for (const int tokens : {1, 2, 4, 8, 16}) {
    step.prepare(tokens);
    steps.push_back({tokens, step_seconds(stream, step, tokens),
                     total_seconds(decode_costs(hy4_preview(), storage, tokens, kKeys), rates),
                     eager.seconds(key, tokens)});
  }
  fmt::print("\n{} weights, {} keys a sequence\n{}", name, kKeys, step_table(steps));
  out["steps"] = step_json(steps);
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

struct Files {
  std::string json, eager;
};

Files files_of(int argc, char** argv) {
  Files files;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    if (i + 1 == argc || (option != "--json" && option != "--eager")) {
      throw usage_error("usage: cuda_bench [--json FILE] [--eager FILE]");
    }
    (option == "--json" ? files.json : files.eager) = argv[i + 1];
  }
  return files;
}

void run(const Files& files) {
  const std::string device = require_device();
  const EagerFigures eager = files.eager.empty() ? EagerFigures() : EagerFigures(files.eager, kKeys);
  fmt::print("{}; LibTorch eager: {}\n", device, eager.source());
  const OwnedStream stream;
  nlohmann::json out{{"device", device}, {"keys", kKeys}, {"libtorch_eager", eager.source()}};
  out["bf16"] = benchmark(stream.get(), WeightStorage::bf16, "bf16", "BF16", eager);
  out["fp8_block"] = benchmark(stream.get(), WeightStorage::fp8_block, "fp8_block", "FP8 block", eager);
  out["mxfp8"] = benchmark(stream.get(), WeightStorage::mxfp8, "mxfp8", "MXFP8", eager);
  if (files.json.empty()) return;
  std::FILE* const file = std::fopen(files.json.c_str(), "w");
  if (file == nullptr) throw environment_error(fmt::format("{} cannot be written", files.json));
  fmt::print(file, "{}\n", out.dump(1));
  std::fclose(file);
}

}  // namespace
}  // namespace mtpcheck::cuda::inline SIMT_BACKEND

int main(int argc, char** argv) {
  try {
    mtpcheck::cuda::run(mtpcheck::cuda::files_of(argc, argv));
  } catch (const mtpcheck::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.failure());
  }
}

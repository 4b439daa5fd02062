#include "harness/checkpoint/safetensors/index.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <map>
#include <new>
#include <numeric>

#include "harness/checkpoint/natural_order.h"
#include "harness/checkpoint/safetensors/weight_map.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kMaxIndexDepth = 16;

Problem corrupt(const std::string& file, std::string found, std::string expected) {
  Problem problem{ProblemId::corrupt_index, file, {}, {}, std::move(found), std::move(expected), {}};
  problem.message =
      fmt::format("{}: {}; {} was expected. Download the index again.", file, problem.found, problem.expected);
  return problem;
}

}  // namespace

std::variant<SafetensorsIndex, Problem> read_weight_map(const simdjson::dom::object& weight_map,
                                                        const std::string& file) {
  SafetensorsIndex index;
  index.shard.reserve(weight_map.size());
  std::map<std::string, std::uint32_t, std::less<>> numbers;
  for (const auto& [tensor, shard] : weight_map) {
    std::string_view name;
    if (shard.get(name) != simdjson::SUCCESS) {
      return corrupt(file, fmt::format("the shard of {} is no text", tensor), "a file name");
    }
    auto number = numbers.find(name);
    if (number == numbers.end()) {
      number = numbers.emplace(std::string(name), static_cast<std::uint32_t>(index.files.size())).first;
      index.files.emplace_back(name);
    }
    if (!index.shard.emplace(tensor, number->second).second) {
      return corrupt(file, fmt::format("tensor {} stands twice in weight_map", tensor), "one entry a name");
    }
  }
  // Numbers become places in natural order.
  std::vector<std::uint32_t> order(index.files.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return natural_less(index.files[a], index.files[b]); });
  std::vector<std::uint32_t> place(order.size());
  std::vector<std::string> sorted(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    sorted[i] = std::move(index.files[order[i]]);
  }
  index.files = std::move(sorted);
  for (auto& [tensor, number] : index.shard) number = place[number];
  return index;
}

std::variant<SafetensorsIndex, Problem> read_index(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.empty()) return corrupt(file, "an empty file", "a JSON object");
  if (bytes.size() > kMaxIndexLength) {
    return corrupt(file, fmt::format("a length of {} bytes", with_thousands(bytes.size())),
                   fmt::format("at most {}", with_thousands(kMaxIndexLength)));
  }
  simdjson::dom::parser parser(kMaxIndexLength);
  if (parser.allocate(bytes.size(), kMaxIndexDepth) != simdjson::SUCCESS) throw std::bad_alloc();
  simdjson::dom::object root;
  const auto error = parser.parse(reinterpret_cast<const char*>(bytes.data()), bytes.size()).get(root);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error != simdjson::SUCCESS) {
    return corrupt(file, fmt::format("not valid JSON ({})", simdjson::error_message(error)), "a JSON object");
  }
  const simdjson::dom::object* weight_map = nullptr;
  simdjson::dom::object candidate;
  for (const auto& [key, value] : root) {
    if (key != "weight_map") continue;
    if (weight_map != nullptr) return corrupt(file, "weight_map stands twice", "one");
    if (value.get(candidate) != simdjson::SUCCESS) return corrupt(file, "weight_map is no object", "file by tensor");
    weight_map = &candidate;
  }
  if (weight_map == nullptr) return corrupt(file, "no weight_map", "weight_map: file by tensor");
  return read_weight_map(*weight_map, file);
}

}  // namespace mtpcheck

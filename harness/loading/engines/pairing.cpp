#include "harness/loading/engines/pairing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace mtpcheck {
namespace {

/// What two parameters share where they belong to one row: a weight, or the kind of a KV-cache scale.
struct SharedName {
  WeightKey key;
  bool kv_scale = false;
  friend bool operator<(const SharedName& a, const SharedName& b) {
    return std::tie(a.key, a.kv_scale) < std::tie(b.key, b.kv_scale);
  }
};

struct ParameterOfEngine {
  std::size_t engine;
  std::uint32_t parameter;
  std::vector<SharedName> names;
};

std::vector<ParameterOfEngine> all_parameters(std::span<const EngineSide> engines) {
  std::vector<ParameterOfEngine> all;
  for (std::size_t engine = 0; engine < engines.size(); ++engine) {
    const auto& parameters = engines[engine].plan->parameters;
    const std::size_t first = all.size();
    for (std::uint32_t index = 0; index < parameters.size(); ++index) {
      all.push_back({engine, index, {}});
      if (parameters[index].role != Role::kv_scale) continue;
      const auto& name = parameters[index].name;
      all.back().names.push_back({{parameters[index].layer, name.substr(name.rfind('.') + 1), {}}, true});
    }
    for (const auto& [key, held] : engines[engine].held) all[first + held.parameter].names.push_back({key, false});
  }
  return all;
}

/// Of each parameter the first one that it hangs together with.
class DisjointSets {
 public:
  explicit DisjointSets(std::size_t size) : parent_(size) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }

  std::size_t root(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    const auto [low, high] = std::minmax({root(a), root(b)});
    parent_[high] = low;
  }

 private:
  std::vector<std::size_t> parent_;
};

std::string starred_expert(const std::string& weight) {
  constexpr std::string_view kExperts = "mlp.experts.";
  if (!weight.starts_with(kExperts)) return weight;
  const auto dot = weight.find('.', kExperts.size());
  return dot == std::string::npos ? weight : std::string(kExperts) + "*" + weight.substr(dot);
}

/// In the order in which the first engine that has them holds them: parameter, expert, row.
std::vector<SharedName> in_order(const std::set<SharedName>& names, std::span<const EngineSide> engines) {
  const auto place = [&](const SharedName& name) {
    for (std::size_t engine = 0; engine < engines.size(); ++engine) {
      const HeldWeight* const held = engines[engine].find(name.key);
      if (held != nullptr) {
        return std::array<std::size_t, 4>{engine, held->parameter, held->box.experts.begin, held->box.rows.begin};
      }
    }
    return std::array<std::size_t, 4>{engines.size(), 0, 0, 0};
  };
  std::vector<SharedName> ordered(names.begin(), names.end());
  std::ranges::stable_sort(ordered, {}, place);
  return ordered;
}

void name_row(PairedParameters& row, const std::vector<SharedName>& names, bool layers) {
  std::vector<std::string> words;
  for (const auto& [key, kv_scale] : names) {
    row.layer = key.layer;
    row.aspect = key.aspect;
    row.kv_scale = kv_scale;
    words.push_back(key.weight);
    if (!kv_scale) row.weights.push_back(key);
  }
  row.name = fmt::format("{}{}{}{}", layers ? fmt::format("mtp_layers.{}.", row.layer) : "",
                         row.kv_scale ? "KV cache " : "", common_name(words), to_string(row.aspect));
}

}  // namespace

std::string common_name(const std::vector<std::string>& weights) {
  std::vector<std::string> names;
  for (const auto& weight : weights) {
    std::string name = starred_expert(weight);
    if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  if (names.size() == 1) return names.front();
  const auto stem_of = [](const std::string& name) { return name.substr(0, name.rfind('.') + 1); };
  const std::string stem = stem_of(names.front());
  if (!std::ranges::all_of(names, [&](const std::string& name) { return stem_of(name) == stem; })) {
    return fmt::format("{}", fmt::join(names, ", "));
  }
  for (std::string& name : names) name.erase(0, stem.size());
  return fmt::format("{}{{{}}}", stem, fmt::join(names, ", "));
}

std::vector<PairedParameters> paired_parameters(std::span<const EngineSide> engines) {
  const auto all = all_parameters(engines);
  DisjointSets groups(all.size());
  std::map<SharedName, std::size_t> first_with;
  bool layers = false;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const SharedName& name : all[i].names) {
      groups.join(first_with.emplace(name, i).first->second, i);
      layers = layers || name.key.layer > 0;
    }
  }
  std::vector<PairedParameters> rows;
  std::vector<std::set<SharedName>> names;
  std::map<std::size_t, std::size_t> row_of;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto [place, fresh] = row_of.emplace(groups.root(i), rows.size());
    if (fresh) {
      rows.emplace_back().parameters.resize(engines.size());
      names.emplace_back();
    }
    rows[place->second].parameters[all[i].engine].push_back(all[i].parameter);
    names[place->second].insert(all[i].names.begin(), all[i].names.end());
  }
  for (std::size_t i = 0; i < rows.size(); ++i) name_row(rows[i], in_order(names[i], engines), layers);
  return rows;
}

}  // namespace mtpcheck

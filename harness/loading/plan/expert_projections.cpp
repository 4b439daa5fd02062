#include "harness/loading/plan/expert_projections.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <tuple>
#include <utility>

#include "harness/loading/symbolic/python_text.h"

namespace mtpcheck {

std::vector<ExpertProjection> split_expert_projections(const std::string& name, std::size_t experts,
                                                       std::string_view stem) {
  constexpr std::string_view kExperts = "experts.";
  constexpr std::array<std::pair<std::string_view, Shard>, 3> kProjections{
      {{".gate_proj.", Shard::w1}, {".down_proj.", Shard::w2}, {".up_proj.", Shard::w3}}};
  std::vector<ExpertProjection> found;
  for (std::size_t at = name.find(kExperts); at != std::string::npos; at = name.find(kExperts, at + 1)) {
    const char* begin = name.data() + at + kExperts.size();
    std::size_t expert = 0;
    const auto [end, error] = std::from_chars(begin, name.data() + name.size(), expert);
    // "experts.03." is not expert 3: the engine compares text.
    if (error != std::errc() || expert >= experts || (*begin == '0' && end - begin > 1)) continue;
    const std::string_view rest(end, static_cast<std::size_t>(name.data() + name.size() - end));
    for (const auto& [projection, shard] : kProjections) {
      if (!rest.starts_with(projection)) continue;
      const std::string from =
          name.substr(at, static_cast<std::size_t>(end - begin) + kExperts.size()) + std::string(projection);
      const std::string to = std::string(stem) + (shard == Shard::w2 ? "w2_" : "w13_");
      found.push_back({expert, shard, replace_all(name, from, to)});
    }
  }
  const auto key = [](const ExpertProjection& entry) { return std::tuple(entry.expert, entry.shard); };
  std::ranges::sort(found, {}, key);
  const auto same = [&](const ExpertProjection& a, const ExpertProjection& b) { return key(a) == key(b); };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  return found;
}

}  // namespace mtpcheck

#include "harness/checkpoint/problem.h"

namespace mtpcheck {

std::string_view to_string(ProblemId id) {
  switch (id) {
    case ProblemId::index_mismatch:
      return "index-mismatch";
    case ProblemId::duplicate_tensor:
      return "duplicate-tensor";
    case ProblemId::shard_missing:
      return "shard-missing";
    case ProblemId::truncated:
      return "truncated";
    case ProblemId::corrupt_header:
      return "corrupt-header";
    case ProblemId::corrupt_index:
      return "corrupt-index";
    case ProblemId::corrupt_config:
      break;
  }
  return "corrupt-config";
}

bool makes_unreadable(ProblemId id) { return id != ProblemId::index_mismatch && id != ProblemId::duplicate_tensor; }

std::string with_thousands(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits;
}

}  // namespace mtpcheck

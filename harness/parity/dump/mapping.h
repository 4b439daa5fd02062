#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "reference/model/stages.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck {

/// What one tensor of a dump is.
struct MappedTensor {
  std::vector<StageKey> stages;  ///< several: fused side by side in the last dimension, in this order
  /// Order of its dimensions when it is not the stage's own: for each of the stage's dimensions, which of the tensor's.
  /// {1, 0, 2} for a tensor [N, T, d] of a stage [T, N, d]. Empty: the stage's own, or whatever is unambiguous.
  std::vector<std::size_t> order;
};

/// Names of a dump → what they are. `nlohmann::json` of a mapping file:
///   {"layers.3.q": "q",                                  one stage
///    "fused_qkv_a": "q_a+kv_a",                          fused, side by side
///    "rope_out": {"stage": "q_rope", "order": [1, 0, 2]}, dimensions in another order
///    "debug.*": null}                                    not a stage: ignored. '*' stands for anything, at the end
///    only
/// Throws Error{input}, prefixed with `file`, for a name that is no stage or a value of another form.
class Mapping {
 public:
  Mapping() = default;
  Mapping(const nlohmann::json& json, const std::string& file);

  enum class Kind : unsigned char { mapped, ignored, unknown };
  struct Match {
    Kind kind = Kind::unknown;
    MappedTensor tensor;
  };

  /// By the mapping file, else by the exact name of a stage ("step1.q_rope", "q_a+kv_a"). Names of inputs (input_ids,
  /// positions, hidden_states, cu_seqlens, inputs_embeds) are ignored.
  Match match(const std::string& name) const;

 private:
  std::map<std::string, Match> exact_;
  std::vector<std::pair<std::string, Match>> prefixes_;
};

/// The stage that a name nobody knows may mean: by engines' module names, by likeness, or by the only stage of that
/// shape. Empty when there is no idea.
///
/// expected  stages that still lack a tensor, with their shapes
std::string suggestion(const std::string& name, const Shape& shape, const std::map<std::string, Shape>& expected);

}  // namespace mtpcheck

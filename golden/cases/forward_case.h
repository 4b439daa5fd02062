#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "reference/model/config.h"
#include "reference/model/head.h"
#include "reference/model/input.h"
#include "reference/model/weights.h"
#include "reference/tensor/tensor.h"

/// The recorded cases of golden/forward, for tests. The reader here trusts its files and shares nothing with
/// harness/checkpoint, which does not.
namespace mtpcheck::golden {

using Tensors = std::map<std::string, Tensor>;

/// Every tensor of a safetensors file.
Tensors read_safetensors(const std::filesystem::path& path);

struct ForwardCase {
  HeadConfig config;
  HeadWeights weights;  ///< one MTP layer; owns its bytes through `storage`
  Tensors inputs;       ///< input_ids, positions, hidden_states, cu_seqlens; "step1." before those of the second step
  Tensors vllm;         ///< activations_vllm: DTYPE.STAGE[.seqN]
  Tensors hf;           ///< activations_hf

  HeadInput input(std::size_t step = 0) const;
};

/// A case by its name, e.g. "topk_below_seq", from the folder golden/forward.
ForwardCase read_forward_case(const std::filesystem::path& folder, const std::string& name);

/// Names of all cases in golden/forward.
std::vector<std::string> forward_cases(const std::filesystem::path& folder);

/// What was recorded under "DTYPE." for a stage that a head names so ("step1.q_rope" lies under "step1.f32.q_rope");
/// nullptr where nothing was.
const Tensor* find_recorded(const Tensors& recorded, const std::string& stage, const std::string& dtype);

/// Keeps every stage under its name.
class KeepingSink final : public StageSink {
 public:
  bool wants(Stage /*stage*/) const override { return true; }
  void record(const StageKey& key, const TensorView& value) override {
    stages[to_string(key)] = {value.dtype, value.shape, {value.bytes.begin(), value.bytes.end()}};
  }

  Tensors stages;
};

/// Largest |a − b| over the largest finite |b|; infinite where shapes, NaN or infinities differ.
double distance(const Tensor& a, const Tensor& b);

}  // namespace mtpcheck::golden

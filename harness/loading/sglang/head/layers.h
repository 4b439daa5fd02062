#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/loading/sglang/head/head.h"
#include "harness/loading/sglang/quantisation/quantisation.h"

namespace mtpcheck::sglang {

/// What every module of the draft model is built from.
struct LayerContext {
  const std::optional<Quantisation>& quantisation;
  Dtype dtype = Dtype::bf16;
  std::size_t tp_size = 1;
  std::size_t tp_rank = 0;
};

/// A size of config.json, and its key.
struct Size {
  std::size_t value = 0;
  const char* key = "";
};

/// Throws Refused, naming the key, unless the ranks can share the size evenly.
std::size_t share_of(const Size& size, std::size_t ranks);

/// A linear layer to be built.
struct Linear {
  const char* name;  ///< "model.decoder.self_attn.o_proj"
  Loader loader;
  Size cols;
  std::vector<std::string> parts;
  std::vector<Size> part_rows;  ///< of all ranks together
  bool one_for_sglang = false;  ///< joined before its loader sees it: for SGLang it is one projection
};

/// Appends the parameters of a linear layer. Throws Refused where the scheme does not fit its sizes.
void add_linear(const Linear& linear, const LayerContext& context, std::vector<EngineParameter>& parameters);

/// The routed experts.
struct Experts {
  std::size_t count = 0;
  std::size_t first = 0;  ///< global number of this rank's first
  std::size_t local = 0;  ///< how many are this rank's
  std::size_t hidden = 0;
  Size intermediate;
  bool whole = false;  ///< expert parallelism: no expert is cut
};

/// Appends the parameters of the experts. Throws Refused as `add_linear`.
void add_experts(const Experts& experts, const LayerContext& context, std::vector<EngineParameter>& parameters);

}  // namespace mtpcheck::sglang

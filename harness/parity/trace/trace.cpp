#include "harness/parity/trace/trace.h"

namespace mtpcheck {

void TraceSink::record(const StageKey& key, const TensorView& value) {
  trace_.insert_or_assign(key, Tensor{value.dtype, value.shape, {value.bytes.begin(), value.bytes.end()}});
}

const Tensor* find(const Trace& trace, const StageKey& key) {
  const auto found = trace.find(key);
  return found == trace.end() ? nullptr : &found->second;
}

}  // namespace mtpcheck

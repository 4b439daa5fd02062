#include "harness/loading/plan/request.h"

#include <fmt/format.h>

#include "reference/tensor/error.h"

namespace mtpcheck {

void check_topology(const Topology& topology) {
  if (topology.tp_size == 0 || topology.tp_rank >= topology.tp_size) {
    throw usage_error(fmt::format("rank {} of a tensor-parallel group of {}: ranks count from 0 and lie below the size",
                                  topology.tp_rank, topology.tp_size));
  }
  if (!topology.expert_map.empty() && !topology.expert_parallel) {
    throw usage_error("an expert map needs expert parallelism");
  }
}

}  // namespace mtpcheck

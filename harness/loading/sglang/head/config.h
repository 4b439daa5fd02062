#pragma once

#include "harness/loading/plan/request.h"
#include "reference/model/config.h"

namespace mtpcheck::sglang {

/// The config of SGLang's draft model: it always has experts and an indexer, whatever kind the last backbone layer is,
/// so their sizes are read where the head as meant has none. Throws Refused where HYV4Config or the draft model insist
/// on something else.
HeadConfig draft_config(const LoadRequest& request);

}  // namespace mtpcheck::sglang

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "reference/head/head_options.h"
#include "reference/model/config.h"
#include "reference/model/conventions.h"
#include "reference/model/head.h"
#include "reference/model/weights.h"

namespace mtpcheck {

/// Which head, and how it computes.
struct HeadChoice {
  std::string head = "reference";                                     ///< reference, torch, cuda, cuda-emulated
  std::string dtype = "f32";                                          ///< f64, f32, bf16, f16: what the head can
  ActivationQuantisation activations = ActivationQuantisation::none;  ///< of the reference
  std::string rounding_preset = "vllm";                               ///< whose rounding points; of the reference
  Deviations deviations;                                              ///< of the reference: a fault on purpose
  int threads = 0;                                                    ///< 0: as many as there are
};

/// Heads that this build has, in the order of preference.
std::vector<std::string> available_heads();

/// What a head computes in when nobody says: f32, and bf16 for the CUDA heads, which know nothing else.
std::string default_dtype(const std::string& head);

/// Throws Error{usage} for a name that is no head or a dtype that the head does not compute in, Error{environment} for
/// a head that this build lacks or that needs a device which is not there.
std::unique_ptr<Head> make_head(const HeadChoice& choice, const HeadConfig& config, const HeadWeights& weights,
                                const Conventions& conventions);

}  // namespace mtpcheck

#pragma once

#include <algorithm>
#include <string>

#include "golden/cases/loader_case.h"
#include "harness/checkpoint/scratch_directory.h"
#include "harness/loading/audit/audit.h"

/// For tests: a recorded case, changed by hand, and what an audit says of it.
namespace mtpcheck::golden {

/// Removes the tensors whose names match the pattern, in every file.
inline void drop(LoaderCase& made, const std::string& pattern) {
  for (auto& [file, tensors] : made.files) {
    std::erase_if(tensors, [&](const auto& entry) { return match(pattern, entry.first).has_value(); });
  }
}

/// Renames the tensors that match `from`; a star in `to` takes what it matched.
inline void rename(LoaderCase& made, const std::string& from, const std::string& to) {
  for (auto& [file, tensors] : made.files) {
    Tensors renamed;
    for (auto& [name, tensor] : tensors) {
      const auto stars = match(from, name);
      renamed.emplace(stars ? filled(to, *stars) : name, std::move(tensor));
    }
    tensors = std::move(renamed);
  }
}

/// The tensors of a case with one file.
inline Tensors& tensors_of(LoaderCase& made) { return made.files.at("model.safetensors"); }

inline Tensor& tensor_of(LoaderCase& made, const std::string& name) { return tensors_of(made).at(long_name(name)); }

/// Written out, opened and audited. loader  "vllm@0.33.0", or "none"
inline Audit audit_case(const LoaderCase& made, const std::string& loader = "vllm@0.33.0") {
  const ScratchDirectory scratch;
  write_checkpoint(made, scratch.path());
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  HeadConfig config = parse_head_config(checkpoint.config, "config.json");
  for (const auto& [key, value] : made.set_in_engine) {
    if (key == "num_nextn_predict_layers") config.num_nextn_predict_layers = value.get<std::size_t>();
  }
  return audit(checkpoint, config,
               {.loader = loader == "none" ? nullptr : find_loader(loader),
                .topology = {made.tp_size, made.tp_rank, made.expert_parallel, {}},
                .kv_cache_dtype = made.kv_cache_dtype,
                .config_unchecked = !made.set_in_engine.empty()});
}

/// The finding with this id about a subject that matches the pattern; nullptr where there is none.
inline const Finding* find(const Audit& audited, const std::string& id, const std::string& subject = "*") {
  const auto found = std::ranges::find_if(audited.findings, [&](const Finding& finding) {
    return finding.id == id && match(subject, finding.subject).has_value();
  });
  return found == audited.findings.end() ? nullptr : &*found;
}

/// All findings, a line each.
inline std::string text_of(const Audit& audited) {
  std::string text;
  for (const auto& finding : audited.findings) text += "\n  " + describe(finding);
  return text;
}

}  // namespace mtpcheck::golden

#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "golden/cases/case_text.h"

namespace mtpcheck::golden {

/// One call of a parameter's weight loader.
struct RecordedLoad {
  std::string parameter;
  std::string shard;  ///< "", "0", "w1", …
  int expert = -1;
  bool written = true;
  friend bool operator==(const RecordedLoad&, const RecordedLoad&) = default;
};

struct RecordedTensor {
  std::string outcome;
  std::vector<RecordedLoad> loads;
  std::string completed_by;  ///< the other half of a pair that triggered the write; SGLang's cases only
};

struct RecordedParameter {
  std::string dtype;  ///< torch's word
  std::vector<std::size_t> shape;
  std::string initial;  ///< what it held before the load; empty in SGLang's cases
  std::size_t unwritten = 0;
  std::string sha256;  ///< of all bytes, unwritten ones as they were initially; empty where it is not known
  bool nondeterministic = false;
};

struct RecordedException {
  std::string type;
  std::string where;  ///< load_weights, strict_check, weight_loader; empty for a refusal
  std::string message;
};

/// What an engine did with the checkpoint of a case.
struct LoaderOutcome {
  bool defective = false;
  bool engine_silent = false;
  std::optional<RecordedException> refused;
  std::optional<RecordedException> exception;
  std::vector<std::string> unassigned;
  std::map<std::string, std::size_t> silently_incomplete;  ///< parameter → unwritten elements
  std::vector<std::string> warnings;
  std::vector<std::string> construction_warnings;
  std::set<std::string> loaded_too;  ///< returned as loaded though no tensor was written to it

  /// Of each name, in the order in which its copies were read.
  std::map<std::string, std::vector<RecordedTensor>> tensors;
  std::map<std::string, RecordedParameter> parameters;

  std::map<std::string, std::string> file_sha256;     ///< of the checkpoint's files; vLLM's cases only
  std::map<std::string, std::string> config_changes;  ///< key → JSON; SGLang's cases only
  std::vector<std::string> differs_from_vllm;         ///< parameters; SGLang's cases only
  std::vector<std::string> missing_in_vllm;           ///< parameters; SGLang's cases only
  bool compared_with_vllm = false;                    ///< SGLang's cases only
  std::size_t equal_to_vllm = 0;                      ///< parameters, where compared
  std::size_t permuted_from_vllm = 0;                 ///< the same in another order of rows
  std::size_t skipped_with_vllm = 0;                  ///< elements unwritten in one of the engines, or nondeterministic

  const RecordedTensor& tensor(const std::string& name, std::size_t copy) const;
};

/// The recorded outcomes of one engine.
class LoaderOutcomes {
 public:
  /// golden/loader: lines of cases/ and expected/, told against the case after `from`.
  static LoaderOutcomes of_vllm(const std::filesystem::path& folder);
  /// golden/loader-sglang: lines of expected/, told against the case after `as`.
  static LoaderOutcomes of_sglang(const std::filesystem::path& folder);

  std::vector<std::string> names() const;
  LoaderOutcome read(const std::string& name) const;

 private:
  std::string parent_word_;
  std::map<std::string, std::vector<CaseLine>> lines_;
};

}  // namespace mtpcheck::golden

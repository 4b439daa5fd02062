#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

/// Measured decode steps beside their floor and LibTorch's eager step: the table and the JSON of cuda_bench.
namespace mtpcheck::cuda {

struct MeasuredStep {
  int tokens = 0;
  double seconds = 0;
  double floor_seconds = 0;
  std::optional<double> eager_seconds;  ///< LibTorch eager on the same device; nothing: not measured
};

/// What eager/bench.py wrote, or nothing where it was not run.
class EagerFigures {
 public:
  EagerFigures() = default;
  /// Throws Error{input} that names the file for one that is missing, no JSON, or of another number of keys.
  EagerFigures(const std::string& file, int keys);

  /// Of a step with weights stored as `storage` ("bf16", "fp8_block", "mxfp8").
  std::optional<double> seconds(const std::string& storage, int tokens) const;
  /// "2.15.0 on NVIDIA H200", or "not measured".
  const std::string& source() const { return source_; }

 private:
  struct Figure {
    std::string storage;
    int tokens;
    double seconds;
  };
  std::vector<Figure> figures_;
  std::string source_ = "not measured";
};

/// Markdown: a row a step with its share of the floor's rate and how many times as long LibTorch takes.
std::string step_table(const std::vector<MeasuredStep>& steps);

/// The same for the JSON; what was not measured reads "not measured".
nlohmann::json step_json(const std::vector<MeasuredStep>& steps);

}  // namespace mtpcheck::cuda

#include "golden/cases/bf16_policy.h"

#include <cmath>
#include <sstream>

namespace mtpcheck::golden {
namespace {

double rms_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) sum += (a[i] - b[i]) * (a[i] - b[i]);  // equal infinities differ by nothing
  }
  return a.empty() ? 0.0 : std::sqrt(sum / static_cast<double>(a.size()));
}

double rms_of_finite(const std::vector<double>& a) {
  double sum = 0;
  for (const double v : a) sum += std::isfinite(v) ? v * v : 0.0;
  return a.empty() ? 0.0 : std::sqrt(sum / static_cast<double>(a.size()));
}

void append_rows(const Tensor& tensor, std::vector<std::vector<std::int32_t>>& rows) {
  const auto values = to_i64(tensor.view());
  const std::size_t width = tensor.shape[1];
  for (std::size_t r = 0; r < tensor.shape[0]; ++r) {
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < width; ++i) {
      if (values[r * width + i] >= 0) row.push_back(static_cast<std::int32_t>(values[r * width + i]));
    }
  }
}

}  // namespace

Selections selections_of(const Tensors& stages, std::size_t sequences) {
  Selections out;
  for (std::size_t s = 0; s < sequences; ++s) {
    const auto found = stages.find(sequences == 1 ? "topk_indices" : "topk_indices.seq" + std::to_string(s));
    if (found != stages.end()) append_rows(found->second, out.topk_indices);
  }
  const auto experts = stages.find("topk_experts");
  if (experts != stages.end()) append_rows(experts->second, out.topk_experts);
  return out;
}

std::vector<std::string> beyond_policy(const Tensors& candidate, const Tensors& truth, const Tensors& rounded) {
  std::vector<std::string> out;
  for (const auto& [name, value] : candidate) {
    if (info(stage_key_from_name(name).value().stage).kind != StageKind::values) continue;
    const auto exact = truth.find(name);
    if (exact == truth.end() || exact->second.shape != value.shape) {
      out.push_back(name + ": not in the truth, or in another shape");
      continue;
    }
    const auto t = to_f64(exact->second.view());
    const double error = rms_distance(to_f64(value.view()), t);
    const double allowance = 2 * rms_distance(to_f64(rounded.at(name).view()), t) + 4 * rms_of_finite(t) / 256;
    if (error <= allowance) continue;
    std::ostringstream line;
    line << name << ": error " << error << ", allowance " << allowance;
    out.push_back(line.str());
  }
  return out;
}

}  // namespace mtpcheck::golden

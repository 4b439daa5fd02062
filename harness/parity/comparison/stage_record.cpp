#include "harness/parity/comparison/stage_record.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <span>
#include <sstream>
#include <vector>

#include "harness/parity/metrics/distribution.h"
#include "harness/parity/metrics/logit_agreement.h"
#include "harness/parity/metrics/worst_elements.h"
#include "harness/parity/stage/stage_errors.h"

namespace mtpcheck {
namespace {

constexpr std::size_t kWorstElements = 10;

std::vector<std::string> dimension_names(Stage stage, std::size_t rank) {
  std::vector<std::string> names;
  std::istringstream symbols{std::string(info(stage).shape)};
  for (std::string symbol; std::getline(symbols, symbol, ',');) names.push_back(symbol);
  while (names.size() < rank) names.push_back(fmt::format("dim{}", names.size()));
  names.resize(rank);
  return names;
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

reports::StageRecord described(const StageKey& key, const Tensor& tensor) {
  reports::StageRecord record;
  record.name = to_string(key);
  record.stage = std::string(name(key.stage));
  record.step = static_cast<std::int64_t>(key.step);
  record.sequence = key.sequence ? static_cast<std::int64_t>(*key.sequence) : -1;
  record.dimensions = dimension_names(key.stage, tensor.shape.size());
  record.extents.assign(tensor.shape.begin(), tensor.shape.end());
  return record;
}

std::string shape_mismatch(Stage stage, const Tensor& candidate, const Tensor& reference) {
  if (info(stage).kind == StageKind::values) {
    if (candidate.shape == reference.shape) return {};
  } else if (candidate.shape.size() == 2 && reference.shape.size() == 2 &&
             candidate.shape.front() == reference.shape.front()) {
    return {};  // sets may be padded to any width
  }
  return fmt::format("shape {}, expected {}", to_string(candidate.shape), to_string(reference.shape));
}

void measure_values(reports::StageRecord& record, const StageKey& key, const Tensor& candidate, const Tensor& truth,
                    const StageNoise& noise, const Tolerance& tolerance, double relative_noise) {
  StageErrors errors =
      stage_errors(key.stage, candidate.view(record.name), truth.view(record.name), noise, tolerance, relative_noise);
  record.cumulative = std::move(errors.record);
  record.profile = std::move(errors.profile);
  record.distribution = distribution(candidate.view(record.name), truth.view(record.name));
  record.worst = worst_elements(candidate.view(record.name), truth.view(record.name), kWorstElements);
  if (key.stage == Stage::logits) record.logits = logit_agreement(candidate.view(), truth.view());
}

Tensor rows_in_scale(const Tensor& explained, const Tensor& candidate) {
  constexpr double kNear = 1e-3;
  std::vector<double> values = to_f64(explained.view());
  const std::vector<double> theirs = to_f64(candidate.view());
  const std::size_t rows = explained.shape.empty() ? 0 : explained.shape.front();
  const std::size_t width = rows == 0 ? 0 : values.size() / rows;
  for (std::size_t row = 0; row < rows; ++row) {
    double product = 0;
    double squares = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      product += values[i] * theirs[i];
      squares += values[i] * values[i];
    }
    const double scale = product / squares;
    if (!(std::abs(scale - 1) < kNear)) continue;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) values[i] *= scale;
  }
  return tensor_of<double>(explained.shape, std::span<const double>(values));
}

reports::KeptTensor kept(const Tensor& tensor) {
  if (!is_floating(tensor.dtype)) {
    const auto ids = to_i64(tensor.view());
    return {reports::KeptTensor::Type::i32, bytes_of(std::vector<std::int32_t>(ids.begin(), ids.end()))};
  }
  if (tensor.dtype == Dtype::f64) return {reports::KeptTensor::Type::f64, tensor.bytes};
  return {reports::KeptTensor::Type::f32, bytes_of(to_f32(tensor.view()))};
}

}  // namespace mtpcheck

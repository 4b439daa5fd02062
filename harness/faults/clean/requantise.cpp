#include "harness/faults/clean/requantise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

constexpr float kLargest = 448.0F;  // of E4M3
const std::string kMtpLayer = "model.mtp_layers.0.";
const std::string kExperts = kMtpLayer + "mlp.experts.";

// Suffix of a split tensor → of the packed one; "" stands for the weight itself.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSuffixes{
    {{"weight", ""}, {"weight_scale_inv", "_scale_inv"}, {"weight_scale", "_weight_scale"}}};

Tensor stacked(const std::vector<const Tensor*>& parts, bool new_dimension) {
  Tensor result{parts.front()->dtype, parts.front()->shape, {}};
  std::size_t rows = 0;
  for (const auto* part : parts) {
    rows += part->shape.at(0);
    result.bytes.insert(result.bytes.end(), part->bytes.begin(), part->bytes.end());
  }
  if (new_dimension) {
    result.shape.insert(result.shape.begin(), parts.size());
  } else {
    result.shape[0] = rows;
  }
  return result;
}

// The groups of a matrix that share a scale: rows × cols elements each.
struct Group {
  std::size_t rows = 0;
  std::size_t cols = 0;
};

struct Coded {
  Tensor codes;
  std::vector<float> scales;  // [⌈rows / group⌉ × ⌈cols / group⌉]
  Shape grid;
};

// Largest magnitude of each group, as a scale: `scale_of` turns it into one that the format can store.
template <class ScaleOf>
Coded coded(const Tensor& weight, Group group, ScaleOf scale_of) {
  const std::size_t rows = weight.shape.at(0);
  const std::size_t cols = weight.shape.at(1);
  const Shape grid{(rows + group.rows - 1) / group.rows, (cols + group.cols - 1) / group.cols};
  auto values = to_f32(weight.view());
  std::vector<float> scales(grid[0] * grid[1], 0.0F);
  const auto cell = [&](std::size_t i) { return i / cols / group.rows * grid[1] + i % cols / group.cols; };
  for (std::size_t i = 0; i < values.size(); ++i) scales[cell(i)] = std::max(scales[cell(i)], std::fabs(values[i]));
  for (auto& scale : scales) scale = scale_of(scale / kLargest);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] /= scales[cell(i)];
  return {converted(tensor_of<float>(weight.shape, values), Dtype::f8_e4m3), std::move(scales), grid};
}

float at_least_tiny(float scale) { return std::max(scale, 1e-12F); }

// The smallest power of two that is not less.
float power_of_two(float scale) { return std::exp2(std::ceil(std::log2(std::max(scale, 1e-12F)))); }

Tensor exponents(const Coded& matrix) {
  std::vector<float> bytes;
  for (const float scale : matrix.scales) bytes.push_back(std::log2(scale) + 127.0F);
  Tensor result = make_tensor(Dtype::u8, matrix.grid);
  for (std::size_t i = 0; i < bytes.size(); ++i) result.bytes[i] = static_cast<std::byte>(bytes[i]);
  return result;
}

bool stays_in_bf16(const std::string& module, WeightFormat format) {
  std::vector<std::string_view> kept{"eh_proj", "mlp.gate", "indexer.weights_proj"};
  if (format != WeightFormat::fp8_block) kept.emplace_back("indexer.wk");
  if (format == WeightFormat::fp8_block || format == WeightFormat::mxfp8) kept.emplace_back("self_attn.linear_gate");
  if (format == WeightFormat::mxfp8) kept.emplace_back("self_attn.kv_b_proj");  // 48 inputs are no whole groups
  return std::ranges::any_of(kept, [&](auto suffix) { return module.ends_with(suffix); });
}

nlohmann::json config_of(WeightFormat format, const std::vector<std::string>& excluded) {
  switch (format) {
    case WeightFormat::fp8_block:
      return {{"quant_method", "fp8"},
              {"fmt", "e4m3"},
              {"activation_scheme", "dynamic"},
              {"weight_block_size", {128, 128}},
              {"modules_to_not_convert", excluded}};
    case WeightFormat::fp8_channel: {
      const auto eight_bits = [](const char* strategy, bool dynamic) {
        return nlohmann::json{
            {"num_bits", 8}, {"type", "float"}, {"symmetric", true}, {"strategy", strategy}, {"dynamic", dynamic}};
      };
      return {{"quant_method", "compressed-tensors"},
              {"format", "float-quantized"},
              {"quantization_status", "compressed"},
              {"ignore", {"lm_head"}},
              {"config_groups",
               {{"group_0",
                 {{"targets", {"Linear"}},
                  {"weights", eight_bits("channel", false)},
                  {"input_activations", eight_bits("token", true)}}}}}};
    }
    case WeightFormat::fp8_tensor:
      return {{"quant_method", "modelopt"},
              {"quant_algo", "FP8"},
              {"ignore", {"lm_head"}},
              {"producer", {{"name", "modelopt"}, {"version", "0.40.0"}}}};
    case WeightFormat::mxfp8:
      return {{"quant_method", "modelopt"}, {"quant_algo", "MXFP8"},
              {"group_size", 32},           {"exclude_modules", excluded},
              {"ignore", excluded},         {"producer", {{"name", "modelopt"}, {"version", "0.40.0"}}}};
    case WeightFormat::bf16:
      break;
  }
  return nullptr;
}

// One weight with its scales in place of the BF16 one.
std::vector<EditableTensor> quantised_weight(const EditableTensor& weight, WeightFormat format) {
  const Tensor& matrix = weight.tensor;
  const std::size_t rows = matrix.shape.at(0);
  const std::size_t cols = matrix.shape.at(1);
  const std::string stem = weight.name.substr(0, weight.name.size() - std::string_view("weight").size());
  const auto scales = [](const Coded& of) { return tensor_of<float>(of.grid, of.scales); };
  switch (format) {
    case WeightFormat::fp8_block: {
      const Coded made = coded(matrix, {128, 128}, at_least_tiny);
      return {{weight.name, weight.file, made.codes}, {stem + "weight_scale_inv", weight.file, scales(made)}};
    }
    case WeightFormat::fp8_channel: {
      const Coded made = coded(matrix, {1, cols}, at_least_tiny);
      return {{weight.name, weight.file, made.codes}, {stem + "weight_scale", weight.file, scales(made)}};
    }
    case WeightFormat::fp8_tensor: {
      const Coded made = coded(matrix, {rows, cols}, at_least_tiny);
      const std::vector<float> of_inputs{0.05F};
      return {{weight.name, weight.file, made.codes},
              {stem + "weight_scale", weight.file, tensor_of<float>({}, made.scales)},
              {stem + "input_scale", weight.file, tensor_of<float>({}, of_inputs)}};
    }
    case WeightFormat::mxfp8: {
      const Coded made = coded(matrix, {1, 32}, power_of_two);
      return {{weight.name, weight.file, made.codes}, {stem + "weight_scale", weight.file, exponents(made)}};
    }
    case WeightFormat::bf16:
      break;
  }
  return {weight};
}

}  // namespace

std::string_view to_string(WeightFormat format) {
  switch (format) {
    case WeightFormat::bf16:
      return "bf16";
    case WeightFormat::fp8_block:
      return "fp8-block";
    case WeightFormat::fp8_channel:
      return "fp8-channel";
    case WeightFormat::fp8_tensor:
      return "fp8-tensor";
    case WeightFormat::mxfp8:
      return "mxfp8";
  }
  return {};
}

bool kept_as_stored(WeightFormat format) { return format != WeightFormat::fp8_block; }

void split_experts(EditableCheckpoint& checkpoint) {
  const EditableTensor gate_up = checkpoint.at(kExperts + "gate_up_proj");
  const EditableTensor down = checkpoint.at(kExperts + "down_proj");
  const std::size_t half = gate_up.tensor.shape.at(1) / 2;
  for (std::size_t e = 0; e < gate_up.tensor.shape.at(0); ++e) {
    const std::string expert = fmt::format("{}{}.", kExperts, e);
    const Tensor both = slab(gate_up.tensor, e);
    add(checkpoint, expert + "gate_proj.weight", gate_up.name, rows(both, 0, half));
    add(checkpoint, expert + "up_proj.weight", gate_up.name, rows(both, half, half));
    add(checkpoint, expert + "down_proj.weight", down.name, slab(down.tensor, e));
  }
  drop(checkpoint, gate_up.name);
  drop(checkpoint, down.name);
}

void pack_experts(EditableCheckpoint& checkpoint) {
  for (const auto& [suffix, packed] : kSuffixes) {
    std::vector<Tensor> gate_up;
    std::vector<Tensor> down;
    for (std::size_t e = 0;; ++e) {
      const auto name = [&](const char* projection) {
        return fmt::format("{}{}.{}.{}", kExperts, e, projection, suffix);
      };
      if (checkpoint.find(name("gate_proj")) == nullptr) break;
      gate_up.push_back(
          stacked({&checkpoint.at(name("gate_proj")).tensor, &checkpoint.at(name("up_proj")).tensor}, false));
      down.push_back(checkpoint.at(name("down_proj")).tensor);
      for (const char* projection : {"gate_proj", "up_proj", "down_proj"}) drop(checkpoint, name(projection));
    }
    if (gate_up.empty()) continue;
    const auto all = [](const std::vector<Tensor>& parts) {
      std::vector<const Tensor*> pointers;
      for (const auto& part : parts) pointers.push_back(&part);
      return stacked(pointers, true);
    };
    const std::string beside = kMtpLayer + "mlp.gate.weight";
    add(checkpoint, fmt::format("{}gate_up_proj{}", kExperts, packed), beside, all(gate_up));
    add(checkpoint, fmt::format("{}down_proj{}", kExperts, packed), beside, all(down));
  }
}

void quantise(EditableCheckpoint& checkpoint, WeightFormat format) {
  if (format == WeightFormat::bf16) return;
  std::vector<EditableTensor> tensors;
  std::vector<std::string> excluded{"lm_head"};
  for (const auto& tensor : checkpoint.tensors) {
    const bool linear =
        tensor.name.starts_with(kMtpLayer) && tensor.name.ends_with(".weight") && tensor.tensor.shape.size() == 2;
    const std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    if (!linear || stays_in_bf16(module, format)) {
      if (linear) excluded.push_back(module);
      tensors.push_back(tensor);
      continue;
    }
    for (auto& part : quantised_weight(tensor, format)) tensors.push_back(std::move(part));
  }
  checkpoint.tensors = std::move(tensors);
  checkpoint.config["quantization_config"] = config_of(format, excluded);
}

}  // namespace mtpcheck

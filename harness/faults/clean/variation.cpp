#include "harness/faults/clean/variation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "reference/random/philox.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

const std::string kPlainPrefix = "model.mtp_layers.0.";

// FP8 blocks stay on one rank: vLLM refuses a part of q_b_proj (192 rows) or of an expert (128) that is no whole
// blocks.
std::vector<Topology> topologies_of(WeightFormat format) {
  std::vector<Topology> topologies{{1, 0, false, {}}};
  if (format == WeightFormat::fp8_block) return topologies;
  for (const std::size_t ranks : {2U, 4U}) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      topologies.push_back({ranks, rank, false, {}});
      topologies.push_back({ranks, rank, true, {}});
    }
  }
  return topologies;
}

constexpr std::array kFormats{WeightFormat::bf16, WeightFormat::fp8_block, WeightFormat::fp8_channel,
                              WeightFormat::fp8_tensor, WeightFormat::mxfp8};

std::vector<CleanVariation> variations_of(WeightFormat format) {
  std::vector<CleanVariation> all;
  for (const bool packed : {false, true}) {
    if (packed && format == WeightFormat::fp8_tensor) continue;
    for (const bool layer_names : {false, true}) {
      for (const std::size_t shards : {1U, 2U, 3U, 7U}) {
        for (const auto& topology : topologies_of(format)) {
          for (const char* preset : {"transformers", "vllm", "sglang"}) {
            for (const std::uint64_t seed : {0U, 1U, 2U}) {
              all.push_back({.format = format,
                             .packed = packed,
                             .layer_names = layer_names,
                             .shards = shards,
                             .indexed = shards > 1 || (seed + topology.tp_rank) % 2 == 0,
                             .backbone = (seed + shards) % 2 == 0,
                             .topology = topology,
                             .preset = preset,
                             .weights_seed = seed});
            }
          }
        }
      }
    }
  }
  return all;
}

}  // namespace

std::string CleanVariation::name() const {
  return fmt::format("{} {} {} {} shard{}{}{} tp {}/{}{} preset {} weights {}", to_string(format),
                     packed ? "packed" : "split", layer_names ? "layers" : "mtp_layers", shards, shards == 1 ? "" : "s",
                     indexed ? "" : " no index", backbone ? " backbone" : "", topology.tp_rank, topology.tp_size,
                     topology.expert_parallel ? " ep" : "", preset, weights_seed);
}

std::vector<CleanVariation> clean_variations(std::size_t count) {
  std::vector<std::vector<CleanVariation>> left;
  for (const auto format : kFormats) left.push_back(variations_of(format));
  std::vector<CleanVariation> chosen;
  const RandomStream stream(8, 0);
  while (chosen.size() < count) {
    auto& of_format = left[chosen.size() % left.size()];
    if (of_format.empty()) {
      throw usage_error(fmt::format("{} clean variations: {} is where a format has no more", count, chosen.size()));
    }
    const std::size_t pick = stream.bits(chosen.size()) % of_format.size();
    chosen.push_back(of_format[pick]);
    chosen.back().rows_seed = chosen.size();
    of_format.erase(of_format.begin() + static_cast<std::ptrdiff_t>(pick));
  }
  return chosen;
}

EditableCheckpoint plain_checkpoint(const EditableCheckpoint& base, WeightFormat format, std::uint64_t weights_seed) {
  EditableCheckpoint checkpoint = base;
  if (weights_seed != 0) {
    std::uint64_t number = 0;
    for (auto& tensor : checkpoint.tensors) {
      const RandomStream stream(weights_seed, ++number);
      transform(tensor.tensor, [&](auto& values) {
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] *= static_cast<float>(1 + 0.1 * (stream.uniform(i) - 0.5));
      });
    }
  }
  split_experts(checkpoint);
  quantise(checkpoint, format);
  for (auto& tensor : checkpoint.tensors) tensor.file = "model.safetensors";
  checkpoint.index.reset();
  std::erase_if(checkpoint.tensors,
                [](const EditableTensor& tensor) { return tensor.name.starts_with("model.layers."); });
  return checkpoint;
}

EditableCheckpoint laid_out(EditableCheckpoint plain, const CleanVariation& variation) {
  if (variation.packed) pack_experts(plain);
  const auto layers = plain.config.at("num_hidden_layers").get<std::size_t>();
  if (variation.layer_names) {
    const std::string prefix = fmt::format("model.layers.{}.", layers);
    rename_prefix(plain, kPlainPrefix, prefix);
    if (plain.config.contains("quantization_config")) {
      for (const char* key : {"modules_to_not_convert", "exclude_modules", "ignore"}) {
        auto& quantisation = plain.config["quantization_config"];
        if (!quantisation.contains(key)) continue;
        for (auto& module : quantisation[key]) {
          auto text = module.get<std::string>();
          if (text.starts_with(kPlainPrefix)) module = prefix + text.substr(kPlainPrefix.size());
        }
      }
    }
  }
  if (variation.backbone) {
    const std::size_t hidden = plain.config.at("hidden_size").get<std::size_t>();
    add(plain, "model.layers.0.input_layernorm.weight", "lm_head.weight",
        converted(tensor_of<float>({hidden}, std::vector<float>(hidden, 1.0F)), Dtype::bf16));
  }
  for (std::size_t i = 0; variation.shards > 1 && i < plain.tensors.size(); ++i) {
    plain.tensors[i].file =
        fmt::format("model-{:05d}-of-{:05d}.safetensors", i % variation.shards + 1, variation.shards);
  }
  if (variation.indexed) plain.index.emplace();
  return plain;
}

}  // namespace mtpcheck

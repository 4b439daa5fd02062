// Files: shards that are absent, short, doubled or malformed.

#include <array>
#include <filesystem>
#include <fstream>

#include "harness/faults/catalogue/fault.h"
#include "harness/faults/catalogue/mtp_prefix.h"

namespace mtpcheck {
namespace {

void overwrite(const std::filesystem::path& file, std::streamoff at, const std::string& bytes) {
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(at);
  stream << bytes;
}

constexpr std::array kFileFaults{
    Fault{"shard-absent", "F01", FaultKind::checkpoint, "a shard that the index names is absent", "sglang#32279",
          Catcher::audit, "model-00003-of-00003.safetensors", "bf16",
          [](EditableCheckpoint& c) {
            c.spoil.emplace_back([](const std::filesystem::path& folder) {
              std::filesystem::remove(folder / "model-00003-of-00003.safetensors");
            });
          }},
    Fault{"index-promises-more", "F01", FaultKind::checkpoint, "the index lists a tensor that no shard holds",
          "huggingface_hub#4725", Catcher::audit, "model.mtp_layers.0.extra.weight", "bf16",
          [](EditableCheckpoint& c) {
            c.index.emplace();
            for (const auto& tensor : c.tensors) (*c.index)[tensor.name] = tensor.file;
            (*c.index)[kMtp + "extra.weight"] = c.tensors.front().file;
          }},
    Fault{"index-misplaces", "F01", FaultKind::checkpoint, "a tensor lies in another shard than the index says",
          "huggingface_hub#4725", Catcher::audit, "enorm.weight", "bf16",
          [](EditableCheckpoint& c) {
            c.index.emplace();
            for (const auto& tensor : c.tensors) (*c.index)[tensor.name] = tensor.file;
            auto& placed = (*c.index)[kMtp + "enorm.weight"];
            for (const auto& tensor : c.tensors) {
              if (tensor.file != placed) {
                placed = tensor.file;
                break;
              }
            }
          }},
    Fault{"shard-truncated", "F02", FaultKind::checkpoint, "a shard ends 512 bytes early", "vmlx-swift#217",
          Catcher::audit, "model.safetensors", "split",
          [](EditableCheckpoint& c) {
            c.spoil.emplace_back([](const std::filesystem::path& folder) {
              const auto file = folder / "model.safetensors";
              std::filesystem::resize_file(file, std::filesystem::file_size(file) - 512);
            });
          }},
    Fault{"name-in-two-shards", "F03", FaultKind::checkpoint, "one name in two shards, with other numbers",
          "colibri#1479", Catcher::audit, "enorm.weight", "bf16",
          [](EditableCheckpoint& c) {
            EditableTensor copy = c.at(kMtp + "enorm.weight");
            transform(copy.tensor, [](auto& values) { values[0] += 1; });
            copy.file = copy.file == "model-00001-of-00003.safetensors" ? "model-00002-of-00003.safetensors"
                                                                        : "model-00001-of-00003.safetensors";
            c.tensors.push_back(std::move(copy));
          }},
    Fault{"header-length-huge", "F04", FaultKind::checkpoint, "a header length of 2^63", "safetensors#220",
          Catcher::audit, "model.safetensors", "split",
          [](EditableCheckpoint& c) {
            c.spoil.emplace_back([](const std::filesystem::path& folder) {
              overwrite(folder / "model.safetensors", 0, std::string("\0\0\0\0\0\0\0\x80", 8));
            });
          }},
    Fault{"header-not-json", "F04", FaultKind::checkpoint, "a header that is no JSON", "mlx-vlm#1464", Catcher::audit,
          "model.safetensors", "split",
          [](EditableCheckpoint& c) {
            c.spoil.emplace_back(
                [](const std::filesystem::path& folder) { overwrite(folder / "model.safetensors", 8, "[[["); });
          }},
    Fault{"trailing-bytes", "F04", FaultKind::checkpoint, "bytes behind the last tensor", "safetensors#220",
          Catcher::audit, "model.safetensors", "split",
          [](EditableCheckpoint& c) {
            c.spoil.emplace_back([](const std::filesystem::path& folder) {
              std::ofstream(folder / "model.safetensors", std::ios::app | std::ios::binary) << "more";
            });
          }},
};

}  // namespace

std::span<const Fault> checkpoint_file_faults() { return kFileFaults; }

}  // namespace mtpcheck

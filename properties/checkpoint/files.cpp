// Checkpoints as files: what the writer wrote reads back, an index gives what it says, opening never depends on how the
// tensors are dealt out to shards, and mutated files are refused or consistent.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/checkpoint/checkpoint.h"
#include "harness/checkpoint/headers_file.h"
#include "harness/checkpoint/natural_order.h"
#include "harness/checkpoint/safetensors/index.h"
#include "harness/checkpoint/safetensors/writer.h"
#include "harness/checkpoint/scratch_directory.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

constexpr std::array kDtypes{Dtype::boolean, Dtype::u8,  Dtype::i16, Dtype::i64,     Dtype::f16,    Dtype::bf16,
                             Dtype::f32,     Dtype::f64, Dtype::c64, Dtype::f8_e4m3, Dtype::f8_e8m0};

Tensor any_tensor() {
  const Dtype dtype = *rc::gen::elementOf(kDtypes);
  const auto shape = *rc::gen::resize(3, rc::gen::container<Shape>(rc::gen::inRange<std::size_t>(0, 4)));
  Tensor tensor = make_tensor(dtype, shape);
  const auto first = *rc::gen::arbitrary<std::uint8_t>();
  for (std::size_t i = 0; i < tensor.bytes.size(); ++i) tensor.bytes[i] = static_cast<std::byte>(first + i);
  return tensor;
}

std::map<std::string, Tensor> any_tensors() {
  const auto names = *rc::gen::resize(
      6, rc::gen::container<std::vector<std::string>>(rc::gen::nonEmpty(rc::gen::string<std::string>())));
  std::map<std::string, Tensor> tensors;
  for (const std::string& name : names) {
    const bool ascii = std::all_of(name.begin(), name.end(), [](char c) { return c > 0; });
    if (ascii && name != "__metadata__") tensors.emplace(name, any_tensor());
  }
  return tensors;
}

std::vector<TensorView> views_of(const std::map<std::string, Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const auto& [name, tensor] : tensors) views.push_back(tensor.view(name));
  return views;
}

RC_GTEST_PROP(CheckpointFiles, WhatTheWriterWroteReadsBack, ()) {
  const auto tensors = any_tensors();
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  const auto path = scratch.path() / "model.safetensors";
  if (*rc::gen::arbitrary<bool>()) {
    write_safetensors(path, views_of(tensors));
  } else {
    SafetensorsWriter writer(path, *rc::gen::inRange<std::size_t>(0, 400));
    for (const TensorView& view : views_of(tensors)) writer.add(view);
    writer.finish();
  }
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  RC_ASSERT(checkpoint.problems.empty());
  RC_ASSERT(checkpoint.headers.tensors.size() == tensors.size());
  for (const TensorView& view : checkpoint.headers.tensors) {
    const Tensor& written = tensors.at(view.name);
    RC_ASSERT(view.dtype == written.dtype);
    RC_ASSERT(view.shape == written.shape);
    RC_ASSERT(std::ranges::equal(view.bytes, written.bytes));
  }
}

RC_GTEST_PROP(CheckpointFiles, OpeningDoesNotDependOnSharding, ()) {
  const auto tensors = any_tensors();
  const auto shards = *rc::gen::inRange<std::size_t>(1, 12);
  std::map<std::string, std::vector<TensorView>> files;
  nlohmann::json weight_map = nlohmann::json::object();
  for (const auto& [name, tensor] : tensors) {
    const std::string file = "m-" + std::to_string(*rc::gen::inRange<std::size_t>(0, shards)) + ".safetensors";
    files[file].push_back(tensor.view(name));
    weight_map[name] = file;
  }
  const ScratchDirectory scratch;
  scratch.write("config.json", "{}");
  for (const auto& [file, views] : files) write_safetensors(scratch.path() / file, views);
  scratch.write("model.safetensors.index.json", nlohmann::json{{"weight_map", weight_map}}.dump());
  const Checkpoint checkpoint = open_checkpoint(scratch.path());
  RC_ASSERT(checkpoint.problems.empty());
  RC_ASSERT(checkpoint.headers.tensors.size() == tensors.size());
  for (const TensorView& view : checkpoint.headers.tensors) {
    RC_ASSERT(std::ranges::equal(view.bytes, tensors.at(view.name).bytes));
    RC_ASSERT(weight_map.at(view.name) == view.file);
  }
  RC_ASSERT(std::is_sorted(checkpoint.headers.tensors.begin(), checkpoint.headers.tensors.end(),
                           [](const TensorView& a, const TensorView& b) {
                             return a.file == b.file ? a.name < b.name : natural_less(a.file, b.file);
                           }));
  const Checkpoint again = open_checkpoint(scratch.write("headers.json", headers_document(checkpoint)));
  RC_ASSERT(again.problems.empty());
  RC_ASSERT(identity_of(again) == identity_of(checkpoint));
}

RC_GTEST_PROP(CheckpointFiles, AMutatedIndexIsRefusedOrConsistent, ()) {
  std::string text = R"({"metadata":{"total_size":3},"weight_map":{"a":"m-2.safetensors","b":"m-10.safetensors"}})";
  const auto edits = *rc::gen::inRange(0, 6);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const char byte = *rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::elementOf(std::string("{}[]\",:\\u0")));
    if (*rc::gen::arbitrary<bool>()) {
      text[at] = byte;
    } else {
      text.erase(at, *rc::gen::inRange<std::size_t>(1, 8));
    }
  }
  const auto result = read_index(std::as_bytes(std::span(text)), "i");
  if (const auto* const index = std::get_if<SafetensorsIndex>(&result)) {
    RC_ASSERT(std::is_sorted(index->files.begin(), index->files.end(), natural_less));
    for (const auto& [tensor, shard] : index->shard) RC_ASSERT(shard < index->files.size());
  } else {
    RC_ASSERT(std::get<Problem>(result).id == ProblemId::corrupt_index);
  }
}

RC_GTEST_PROP(CheckpointFiles, AMutatedHeadersFileIsRefusedOrRead, ()) {
  static const std::string document =
      headers_document(open_checkpoint(MTPCHECK_GOLDEN_DIR "/tiny-hy4/checkpoint-fp8-block"));
  std::string text = document;
  const auto edits = *rc::gen::inRange(1, 4);
  for (int i = 0; i < edits; ++i) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] =
        *rc::gen::oneOf(rc::gen::arbitrary<char>(), rc::gen::elementOf(std::string("{}[]\",:0129")));
  }
  const ScratchDirectory scratch;
  const auto path = scratch.write("headers.json", text);
  try {
    const Checkpoint checkpoint = open_checkpoint(path);
    RC_ASSERT(checkpoint.headers_only);
  } catch (const Error& error) {
    RC_ASSERT(error.failure() == Failure::input);
  }
}

RC_GTEST_PROP(NaturalOrder, IsTotalAndAgreesWithNumbers, ()) {
  const auto a = *rc::gen::arbitrary<std::uint32_t>();
  const auto b = *rc::gen::arbitrary<std::uint32_t>();
  const auto text = *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab-.")));
  RC_ASSERT(natural_less(text + std::to_string(a), text + std::to_string(b)) == (a < b));
}

}  // namespace
}  // namespace mtpcheck

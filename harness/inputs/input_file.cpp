#include "harness/inputs/input_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "harness/inputs/tensor_file.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

class Reader {
 public:
  Reader(const TensorFile& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  bool has(const char* name) const { return file_.find(prefix_ + name) != nullptr; }

  const TensorView& tensor(const char* name, std::size_t rank) const {
    const TensorView* const found = file_.find(prefix_ + name);
    if (found == nullptr) {
      std::vector<std::string> names;
      for (const auto& [known, ignored] : file_.tensors) names.push_back(known);
      throw input_error(
          fmt::format("{}: no tensor {}{}. Inputs are input_ids, positions and hidden_states, or a trace's input_ids, "
                      "positions and target_hidden; the file holds {}",
                      file_.file, prefix_, name, fmt::join(names, ", ")));
    }
    if (found->shape.size() != rank) {
      throw input_error(fmt::format("{}: tensor {} is {}; {} dimension{} expected", file_.file, found->name,
                                    to_string(found->shape), rank, rank == 1 ? " was" : "s were"));
    }
    return *found;
  }

  std::vector<std::int64_t> integers(const char* name) const { return to_i64(tensor(name, 1)); }

  // The first `rows` rows.
  Tensor states(const char* name, std::size_t rows) const {
    const TensorView& view = tensor(name, 2);
    if (view.dtype != Dtype::f32 && view.dtype != Dtype::bf16 && view.dtype != Dtype::f16 && view.dtype != Dtype::f64) {
      throw input_error(fmt::format("{}: tensor {} holds {}; F32, BF16, F16 or F64 was expected", file_.file, view.name,
                                    safetensors_name(view.dtype)));
    }
    if (view.shape[0] < rows) {
      throw input_error(fmt::format("{}: tensor {} is {}; {} rows were expected, one a token", file_.file, view.name,
                                    to_string(view.shape), rows));
    }
    const auto bytes = view.bytes.first(rows * view.shape[1] * (bits_of(view.dtype) / 8));
    return {view.dtype, {rows, view.shape[1]}, {bytes.begin(), bytes.end()}};
  }

 private:
  const TensorFile& file_;
  std::string prefix_;
};

HeadInput rows_as_they_are(const Reader& reader) {
  HeadInput input;
  input.input_ids = reader.integers("input_ids");
  input.positions = reader.integers("positions");
  input.hidden_states = reader.states("hidden_states", reader.tensor("hidden_states", 2).shape[0]);
  const auto rows = static_cast<std::int64_t>(input.positions.size());
  input.cu_seqlens = reader.has("cu_seqlens") ? reader.integers("cu_seqlens") : std::vector<std::int64_t>{0, rows};
  return input;
}

HeadInput rows_of_trace(const Reader& reader, const std::string& file) {
  HeadInput input;
  input.input_ids = reader.integers("input_ids");
  input.positions = reader.integers("positions");
  const std::size_t tokens = input.input_ids.size();
  if (tokens < 2 || input.positions.size() != tokens || reader.tensor("target_hidden", 2).shape[0] != tokens) {
    throw input_error(
        fmt::format("{}: {} input_ids, {} positions and target_hidden of {}; a trace has as many of each, "
                    "and at least two",
                    file, tokens, input.positions.size(), to_string(reader.tensor("target_hidden", 2).shape)));
  }
  input.input_ids.erase(input.input_ids.begin());
  input.positions.pop_back();
  input.hidden_states = reader.states("target_hidden", tokens - 1);
  input.cu_seqlens = {0, static_cast<std::int64_t>(tokens - 1)};
  return input;
}

}  // namespace

HeadInput read_head_input(const std::filesystem::path& path, const HeadConfig& config, const std::string& prefix) {
  const TensorFile file = open_tensor_file(path);
  const Reader reader(file, prefix);
  const bool trace = !reader.has("hidden_states") && reader.has("target_hidden");
  HeadInput input = trace ? rows_of_trace(reader, file.file) : rows_as_they_are(reader);
  check_input(input, config, file.file);
  return input;
}

}  // namespace mtpcheck

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/loading/plan/box.h"
#include "harness/loading/plan/parameter.h"
#include "harness/loading/plan/request.h"

/// The plan: what a loader does with each tensor of a checkpoint, and what it leaves in each parameter.
///
/// A plan is made by an engine's rules (`rules.h`) from headers alone and is a pure function of the request. It is a
/// log of the load in the order in which the engine performs it:
///
///   tensors   one entry a header, with the outcome in the engine's eyes and the range of its loads
///   loads     one entry a call of a parameter's weight loader, with the range of its writes
///   writes    one entry a copy: which box of which parameter, from where in which tensor, converted how
///
/// The last write to an element wins. `coverage.h` answers which elements are written, by whom, twice, or never;
/// `carry_out/` performs the writes on the tensors' bytes.
///
/// To compare parameters *as loaded* with the files *as meant*, make a second plan by other rules (what the files say)
/// over the same parameters: both give, for any box of a parameter, the source elements and the conversion.
namespace mtpcheck {

inline constexpr std::uint32_t kNone = 0xFFFFFFFFu;

/// What became of a checkpoint tensor.
enum class Outcome : std::uint8_t {
  loaded,            ///< at least one weight loader wrote
  not_local,         ///< an expert of another rank
  buffered,          ///< half of a pair; the other half makes the load happen
  skipped,           ///< recognised and left out on purpose
  ignored,           ///< not a tensor of the draft head
  unknown_warning,   ///< dropped with a warning
  kv_scale_warning,  ///< dropped with a warning about KV-cache scales
  dropped_silently,  ///< dropped without a word
  error,             ///< the load stopped here
  not_reached,       ///< comes after the tensor at which the load stopped, or the model could not be built
  not_listed,        ///< in a file that the index does not name
};

std::string_view to_string(Outcome outcome);
std::optional<Outcome> outcome_from_string(std::string_view word);

/// The part of a fused parameter that a load addresses.
enum class Shard : std::uint8_t { none, first, second, w1, w2, w3 };

/// "", "0", "1", "w1", "w2", "w3".
std::string_view to_string(Shard shard);

/// How one axis of a source tensor is walked: element i of the destination's axis reads index (start + i) / repeat.
/// stride is in elements; 0 reads the same index again and again (a broadcast).
struct SourceAxis {
  std::size_t start = 0;
  std::size_t stride = 0;
  std::size_t repeat = 1;

  std::size_t offset(std::size_t i) const { return (start + i) / repeat * stride; }
};

/// How bytes of a tensor become elements of a parameter.
struct Conversion {
  enum class Kind : std::uint8_t {
    number,      ///< the number is kept as far as the parameter's dtype can: torch's `copy_`
    dequantise,  ///< source · scale in float32, rounded to bfloat16, then as `number`
    fill,        ///< a constant; the source tensor is not read
  };
  Kind kind = Kind::number;

  /// The dtype that the source's bytes are taken for: the tensor's own, unless the engine reinterprets the bits (uint8
  /// exponents as F8_E8M0). Equal to the parameter's dtype, the bytes are copied as they are.
  Dtype read_as = Dtype::bf16;

  float constant = 0;  ///< for `fill`

  /// For `dequantise`: the tensor of scales (an index into the headers), what its bytes are taken for, and the block:
  /// source row r, column c is multiplied by cell (r / group_rows, c / group_cols) of a grid `grid_cols` wide.
  std::uint32_t scale_tensor = kNone;
  Dtype scale_read_as = Dtype::f32;
  std::size_t group_rows = 1;
  std::size_t group_cols = 1;
  std::size_t grid_cols = 1;
  std::size_t first_cell = 0;  ///< added to the cell's number
};

/// One copy into a box of a parameter.
struct Write {
  std::uint32_t parameter = 0;
  std::uint32_t tensor = 0;  ///< index into the request's headers
  std::uint32_t load = 0;    ///< index into LoadPlan::loads
  Box box;                   ///< destination, local to the rank; never empty

  /// Element (e, r, c) *of the box* is element base + axes[0].offset(e) + axes[1].offset(r) + axes[2].offset(c) of the
  /// tensor, in its row-major order.
  std::size_t base = 0;
  std::array<SourceAxis, 3> axes;
  Conversion conversion;

  std::size_t source_element(std::size_t expert, std::size_t row, std::size_t col) const {
    return base + axes[0].offset(expert) + axes[1].offset(row) + axes[2].offset(col);
  }
};

/// The bytes of a tensor that a write reads: from the first to the last, in the tensor's file.
struct ByteRange {
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t length = 0;
  bool contiguous = false;  ///< false: there are bytes between that the write does not read
};
ByteRange bytes_read(const Write& write, const TensorView& tensor);

/// One call of a parameter's weight loader.
struct Load {
  std::uint32_t parameter = 0;
  Shard shard = Shard::none;
  std::int32_t expert = -1;  ///< global; −1 where the call names none
  bool written = false;      ///< false: of another rank, or the call raised
  std::uint32_t first_write = 0;
  std::uint32_t write_count = 0;
};

/// What happened to one tensor. `loads` of a buffered half are empty; those of its partner are what the pair gave.
struct PlannedTensor {
  Outcome outcome = Outcome::not_reached;
  std::uint32_t first_load = 0;
  std::uint32_t load_count = 0;
  std::string engine_name;  ///< the name after the engine's first rewriting; empty where it is not the head's
};

/// Something that the engine says and goes on.
struct EngineWarning {
  enum class Kind : std::uint8_t { unknown_weight, kv_scale, unassigned, unknown_algorithm, other };
  Kind kind = Kind::other;
  std::uint32_t tensor = kNone;
  std::string text;  ///< in the engine's words
};

/// The exception with which a load ended.
struct EngineException {
  enum class Where : std::uint8_t {
    load_weights,   ///< at `tensor`; what was loaded before stays loaded
    weight_loader,  ///< at `tensor`, in a thread of its own: raised at the end, all other tensors are loaded
    strict_check,   ///< after the load, for parameters that got nothing
  };
  std::string type;     ///< "RuntimeError", "AssertionError", …
  std::string message;  ///< why, in the engine's words where they say something
  Where where = Where::load_weights;
  std::uint32_t tensor = kNone;
  std::vector<std::uint32_t> parameters;  ///< of a strict check
};

/// The engine refuses to build the model at all.
struct Refusal {
  std::string config_key;  ///< "quantization_config.ignore", "num_nextn_predict_layers", …
  std::string type;        ///< of the exception it would be
  std::string message;
};

/// See the top of the file.
struct LoadPlan {
  std::string engine;   ///< "vllm"
  std::string version;  ///< "0.33.0"

  std::vector<Parameter> parameters;      ///< empty after a refusal
  std::vector<PlannedTensor> tensors;     ///< parallel to the request's headers
  std::vector<std::uint32_t> read_order;  ///< headers in the order in which the engine reads them; without the unlisted
  std::vector<Load> loads;
  std::vector<Write> writes;

  /// The set of names that the engine takes for loaded, sorted; nullopt where its loader never returned. It is the
  /// engine's bookkeeping, not a fact: a fused parameter counts after any one of its parts, and a name may be a second
  /// one of a parameter.
  std::optional<std::vector<std::string>> loaded;
  /// Parameters that the engine says received no value, by name: neither loaded nor KV-cache scales.
  std::vector<std::uint32_t> unassigned;
  std::vector<EngineWarning> warnings;
  std::optional<EngineException> exception;
  std::vector<EngineException> swallowed;  ///< of other threads, after the one that is raised
  std::optional<Refusal> refusal;

  /// Index of a parameter; nullopt where the head has none of that name.
  std::optional<std::uint32_t> find_parameter(std::string_view name) const;
};

/// A plan before anything is read: listed tensors are not reached, the others not listed.
LoadPlan start_plan(std::string engine, std::string version, const LoadRequest& request,
                    std::vector<std::uint32_t> read_order);

}  // namespace mtpcheck

#include "properties/meaning/world.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <cstring>

#include "harness/loading/meaning/logical_weights.h"
#include "reference/random/philox.h"
#include "reference/tensor/tensor.h"

namespace mtpcheck::properties {
namespace {

constexpr std::size_t kBlockRows = 2;
constexpr std::size_t kBlockCols = 3;
constexpr std::size_t kMxGroup = 32;

std::size_t ceil_div(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

bool is_quantisable(const LogicalWeight& weight) {
  return weight.cols > 0 && weight.name != "lm_head" && weight.name != "embed_tokens" && weight.name != "eh_proj" &&
         weight.name != "mlp.gate" && weight.name != "self_attn.indexer.weights_proj";
}

// Extents of a weight's scale: rows × columns. Per tensor there is one.
std::pair<std::size_t, std::size_t> grid_of(Format format, std::size_t rows, std::size_t cols) {
  switch (format) {
    case Format::block:
      return {ceil_div(rows, kBlockRows), ceil_div(cols, kBlockCols)};
    case Format::mxfp8:
      return {rows, ceil_div(cols, kMxGroup)};
    case Format::channel:
      return {rows, 1};
    default:
      return {1, 1};
  }
}

const char* scale_suffix(Format format) { return format == Format::block ? "scale_inv" : "scale"; }

class Writer {
 public:
  explicit Writer(const World& world) : world_(world), bytes_(world.seed, 0) {}

  Files write() && {
    const HeadConfig config = world_.config();
    add("model.embed_tokens.weight", Dtype::bf16, {config.vocab_size, config.hidden_size}, {"embed_tokens"});
    for (std::size_t layer = 0; layer < world_.layers; ++layer) {
      const std::string prefix =
          world_.layers_form ? fmt::format("model.layers.{}.", 2 + layer) : fmt::format("model.mtp_layers.{}.", layer);
      write_layer(prefix, logical_weights(config));
    }
    if (!world_.tied) add("lm_head.weight", Dtype::bf16, {config.vocab_size, config.hidden_size}, {"lm_head"});
    return std::move(files_);
  }

 private:
  // Of each expert's projections first the numbers, then their places: packed and split hold the same.
  struct Pending {
    Shape shape;
    std::vector<std::byte> data;
    std::vector<std::string> weights;
    Dtype dtype = Dtype::bf16;
  };

  std::vector<std::byte> random(Dtype dtype, std::size_t elements) {
    std::vector<std::byte> data(*byte_size(dtype, elements));
    for (std::byte& byte : data) {
      // Exponents stay moderate in every format, so that products are finite and no FP8 number is zero.
      const auto bits = static_cast<std::uint8_t>(bytes_.bits(next_++));
      byte = static_cast<std::byte>(dtype == Dtype::u8 ? 120 + bits % 16 : (bits & 0xBFU) | 0x08U);
    }
    return data;
  }

  void add(const std::string& name, Dtype dtype, Shape shape, std::vector<std::string> weights) {
    const std::size_t elements = elements_of(shape);
    add(name, {std::move(shape), random(dtype, elements), std::move(weights), dtype});
  }

  void add(const std::string& name, Pending pending) {
    files_.bytes.push_back(std::move(pending.data));
    files_.headers.tensors.push_back({name, pending.dtype, pending.shape, files_.bytes.back(), "m.safetensors", 0});
    files_.weights_of[name] = std::move(pending.weights);
  }

  void append(const std::string& name, const Pending& part) {
    auto [place, fresh] = packed_.emplace(name, part);
    if (fresh) return;
    place->second.data.insert(place->second.data.end(), part.data.begin(), part.data.end());
    place->second.weights.insert(place->second.weights.end(), part.weights.begin(), part.weights.end());
  }

  void write_layer(const std::string& prefix, const std::vector<LogicalWeight>& weights) {
    packed_.clear();
    for (const LogicalWeight& weight : weights) {
      if (weight.name == "lm_head") continue;
      const bool expert = weight.name.starts_with("mlp.experts.");
      const Format format = is_quantisable(weight) ? world_.format : Format::bf16;
      const Dtype dtype = format == Format::bf16 ? Dtype::bf16 : Dtype::f8_e4m3;
      const Shape shape = weight.cols == 0 ? Shape{weight.rows} : Shape{weight.rows, weight.cols};
      const Pending numbers{shape, random(dtype, elements_of(shape)), {weight.name}, dtype};
      const std::string split = prefix + weight.sources.front().tensor;
      const std::string stem = prefix + weight.sources.front().stem;
      const std::string packed = expert ? prefix + weight.sources.at(1).tensor : std::string();
      place(expert, split, packed, numbers);
      if (format == Format::bf16) continue;
      const auto [rows, cols] = grid_of(format, weight.rows, weight.cols);
      const Dtype scale = format == Format::mxfp8 ? Dtype::u8 : Dtype::f32;
      const Shape grid = format == Format::tensor ? Shape{} : Shape{rows, cols};
      place(expert, fmt::format("{}.weight_{}", stem, scale_suffix(format)),
            fmt::format("{}_{}", packed, scale_suffix(format)),
            {grid, random(scale, rows * cols), {weight.name}, scale});
    }
    for (auto& [name, pending] : packed_) add(name, give_shape(name, std::move(pending)));
  }

  void place(bool expert, const std::string& split, const std::string& packed, const Pending& part) {
    if (expert && world_.packed) {
      append(packed, part);
    } else {
      add(split, part);
    }
  }

  // Experts on the outside, gate above up.
  Pending give_shape(const std::string& name, Pending pending) const {
    const std::size_t parts = name.find("gate_up_proj") != std::string::npos ? 2 : 1;
    if (pending.shape.empty()) {
      pending.shape = {world_.experts, parts, 1};
    } else {
      pending.shape = {world_.experts, parts * pending.shape[0], pending.shape[1]};
    }
    return pending;
  }

  const World& world_;
  RandomStream bytes_;
  std::uint64_t next_ = 0;
  Files files_;
  std::map<std::string, Pending> packed_;
};

double element(const std::byte* data, Dtype dtype, std::size_t index) {
  const std::size_t size = bits_of(dtype) / 8;
  return to_f64({"", dtype, {1}, {data + index * size, size}, "", 0}).front();
}

std::vector<double> decode(const Matrix& m) {
  std::vector<double> values(m.rows * m.cols);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = element(m.data, m.dtype, i);
    if (m.scales.data == nullptr) continue;
    const std::size_t row = (m.scales.first_row + i / m.cols) / m.scales.block_rows;
    values[i] *= element(m.scales.data, m.scales.dtype, row * m.scales.stride + i % m.cols / m.scales.block_cols);
  }
  return values;
}

}  // namespace

nlohmann::json World::json() const {
  nlohmann::json config{{"num_hidden_layers", 2},
                        {"num_nextn_predict_layers", layers},
                        {"hidden_size", hidden},
                        {"vocab_size", vocabulary},
                        {"num_attention_heads", heads},
                        {"q_lora_rank", q_lora},
                        {"kv_lora_rank", kv_lora},
                        {"qk_nope_head_dim", nope},
                        {"qk_rope_head_dim", rope},
                        {"v_head_dim", value},
                        {"gated_mla", gate},
                        {"learnable_sink", sink},
                        {"tie_word_embeddings", tied},
                        {"n_shared_experts", shared},
                        {"intermediate_size", inner + 1},
                        {"n_routed_experts", experts},
                        {"num_experts_per_tok", 1},
                        {"moe_intermediate_size", inner},
                        {"index_n_heads", 2},
                        {"index_head_dim", rope + 1},
                        {"index_topk", 3}};
  const std::string attention = sparse_attention ? "sparse_attention" : "full_attention";
  config["layer_types"] = {attention, attention};
  config["mlp_layer_types"] = {"dense", sparse_mlp ? "sparse" : "dense"};
  switch (format) {
    case Format::block:
      config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {kBlockRows, kBlockCols}}};
      break;
    case Format::mxfp8:
      config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "MXFP8"}};
      break;
    case Format::channel:
      config["quantization_config"] = {{"quant_method", "compressed-tensors"},
                                       {"config_groups", {{"g", {{"weights", {{"strategy", "channel"}}}}}}}};
      break;
    case Format::tensor:
      config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}};
      break;
    case Format::bf16:
      break;
  }
  return config;
}

void showValue(const World& world, std::ostream& out) {
  static constexpr const char* kFormats[] = {"bf16", "block", "mxfp8", "channel", "tensor"};
  out << kFormats[static_cast<int>(world.format)] << (world.packed ? " packed" : " split")
      << (world.layers_form ? " layers" : " mtp_layers") << " seed " << world.seed << " " << world.json();
}

World any_world() {
  const auto extent = [](std::size_t most) { return *rc::gen::inRange<std::size_t>(1, most + 1); };
  const auto flip = [] { return *rc::gen::arbitrary<bool>(); };
  World world;
  world.hidden = extent(70);
  world.q_lora = extent(9);
  world.kv_lora = extent(9);
  world.heads = extent(3);
  world.nope = extent(4);
  world.rope = 2 * extent(2);
  world.value = extent(4);
  world.experts = extent(4);
  world.inner = extent(9);
  world.shared = *rc::gen::inRange<std::size_t>(0, 3);
  world.layers = extent(2);
  world.vocabulary = extent(7);
  world.sparse_attention = flip();
  world.sparse_mlp = flip();
  world.gate = flip();
  world.sink = flip();
  world.tied = flip();
  world.format = *rc::gen::element(Format::bf16, Format::block, Format::mxfp8, Format::channel, Format::tensor);
  world.packed = flip();
  world.layers_form = flip();
  world.seed = *rc::gen::arbitrary<std::uint32_t>();
  return world;
}

Files files_of(const World& world) { return Writer(world).write(); }

std::map<std::string, std::vector<double>> decoded(const World& world, const HeaderSet& headers) {
  const HeadConfig config = world.config();
  HeadWeights weights = weights_as_meant(meaning_of(config, world.json(), headers), config, headers, nullptr);
  std::map<std::string, std::vector<double>> all;
  for (std::size_t layer = 0; layer < weights.layers.size(); ++layer) {
    for (const LogicalWeight& weight : logical_weights(config)) {
      all[fmt::format("{} {}", layer, weight.name)] =
          weight.vector != nullptr ? *weight.vector(weights.layers[layer])
                                   : decode(*weight.matrix(weights.layers[layer], weight.expert));
    }
  }
  all["embed_tokens"] = decode(weights.embed_tokens);
  return all;
}

}  // namespace mtpcheck::properties

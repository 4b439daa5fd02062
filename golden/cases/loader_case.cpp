#include "golden/cases/loader_case.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace mtpcheck::golden {

namespace {

using Json = nlohmann::json;

/// The node that a dotted path names, its parents must exist.
Json& node(Json& config, const std::string& path, std::string& key) {
  Json* at = &config;
  std::size_t begin = 0;
  for (auto dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
    at = &at->at(path.substr(begin, dot - begin));
    begin = dot + 1;
  }
  key = path.substr(begin);
  return *at;
}

void edit_config(Json& config, const std::string& rest) {
  std::string key;
  constexpr std::string_view kRemoved = " removed";
  if (const auto equals = rest.find(" = "); equals != std::string::npos) {
    Json& parent = node(config, rest.substr(0, equals), key);
    parent[key] = Json::parse(rest.substr(equals + 3));
  } else if (rest.ends_with(kRemoved)) {
    node(config, rest.substr(0, rest.size() - kRemoved.size()), key).erase(key);
  } else {
    throw std::runtime_error("config " + rest);
  }
}

void rename(Tensors& tensors, const std::string& from, const std::string& to) {
  Tensors moved;
  for (auto at = tensors.begin(); at != tensors.end();) {
    if (const auto stars = match(from, at->first)) {
      moved.emplace(filled(to, *stars), std::move(at->second));
      at = tensors.erase(at);
    } else {
      ++at;
    }
  }
  for (auto& [name, tensor] : moved) tensors.insert_or_assign(name, std::move(tensor));
}

Tensor viewed(Tensor tensor, const std::string& dtype, const std::string& shape) {
  tensor.dtype = dtype_from_safetensors(dtype).value();
  tensor.shape = parse_shape(shape);
  return tensor;
}

/// `shard FILE PATTERN…`
using ShardLine = std::pair<std::string, std::vector<std::string>>;

bool any_matches(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const std::string& p) { return match(p, name).has_value(); });
}

/// Rank in which safetensors writes dtypes: wide before narrow.
std::size_t written_rank(Dtype dtype) {
  constexpr std::array kOrder = {Dtype::u64,     Dtype::i64, Dtype::f64, Dtype::f32,    Dtype::u32,     Dtype::i32,
                                 Dtype::bf16,    Dtype::f16, Dtype::u16, Dtype::i16,    Dtype::f8_e8m0, Dtype::f8_e4m3,
                                 Dtype::f8_e5m2, Dtype::i8,  Dtype::u8,  Dtype::boolean};
  return static_cast<std::size_t>(std::ranges::find(kOrder, dtype) - kOrder.begin());
}

void place(LoaderCase& made, Tensors&& tensors, const std::vector<ShardLine>& shards) {
  made.files[shards.front().first];
  for (const auto& [file, patterns] : shards) made.files[file];
  for (auto& [name, tensor] : tensors) {
    const auto home = std::find_if(shards.begin() + 1, shards.end(),
                                   [&name = name](const ShardLine& shard) { return any_matches(shard.second, name); });
    made.files[home == shards.end() ? shards.front().first : home->first].emplace(name, std::move(tensor));
  }
}

}  // namespace

LoaderCases::LoaderCases(std::filesystem::path folder)
    : folder_(std::move(folder)), lines_(read_case_lines(folder_ / "cases")) {}

std::vector<std::string> LoaderCases::names() const {
  std::vector<std::string> names;
  for (const auto& [name, lines] : lines_) names.push_back(name);
  return names;
}

Tensors LoaderCases::own_tensors(const std::string& name) const {
  const auto path = folder_ / "tensors" / (name + ".safetensors");
  return std::filesystem::exists(path) ? read_safetensors(path) : Tensors{};
}

LoaderCases::Built LoaderCases::build(const std::string& name) const {
  const auto& lines = lines_.at(name);
  const Tensors own = own_tensors(name);
  Built built;
  if (const auto parent = first_of(lines, "from")) {
    built = build(*parent);
  } else {
    std::ifstream file(folder_ / "tensors" / (name + ".config.json"));
    built = {Json::parse(file), own};
  }
  for (const auto& [word, rest] : lines) {
    const auto words = words_of(rest);
    if (word == "drop") {
      std::erase_if(built.tensors, [&](const auto& entry) { return match(words.at(0), entry.first).has_value(); });
    } else if (word == "rename") {
      rename(built.tensors, words.at(0), words.at(2));
    } else if (word == "add" || word == "replace") {
      for (const auto& [own_name, tensor] : own) {
        if (match(words.at(0), own_name)) built.tensors.insert_or_assign(own_name, tensor);
      }
    } else if (word == "take") {
      const auto colon = words.at(2).find(':');
      for (auto& [donor_name, tensor] : build(words[2].substr(0, colon)).tensors) {
        const auto stars = match(words[2].substr(colon + 1), donor_name);
        if (stars) built.tensors.insert_or_assign(filled(words[0], *stars), std::move(tensor));
      }
    } else if (word == "view") {
      Tensor& tensor = built.tensors.at(long_name(words.at(0)));
      tensor = viewed(std::move(tensor), words.at(1), words.at(2));
    } else if (word == "config") {
      edit_config(built.config, rest);
    }
  }
  return built;
}

LoaderCase LoaderCases::read(const std::string& name) const {
  LoaderCase made;
  Built built = build(name);
  made.name = name;
  made.config = std::move(built.config);
  std::vector<ShardLine> shards;
  std::vector<std::string> omitted;
  for (const auto& [word, rest] : lines_.at(name)) {
    const auto words = words_of(rest);
    if (word == "about") made.about = rest;
    if (word == "kv-cache") made.kv_cache_dtype = rest;
    if (word == "shard") shards.emplace_back(words.at(0), std::vector(words.begin() + 1, words.end()));
    if (word == "index" && words.at(0) == "omits") omitted.push_back(words.at(1));
    if (word == "topology") {
      made.tp_size = std::stoul(words.at(0).substr(3));
      made.tp_rank = std::stoul(words.at(1).substr(5));
      made.expert_parallel = words.size() > 2;
    }
    if (word == "engine-sets") made.set_in_engine.emplace_back(words.at(0), Json::parse(words.at(2)));
  }
  const bool indexed = !shards.empty();
  if (!indexed) shards.emplace_back("model.safetensors", std::vector<std::string>{});
  place(made, std::move(built.tensors), shards);
  if (indexed) {
    made.weight_map.emplace();
    for (const auto& [file, tensors] : made.files) {
      for (const auto& [tensor, value] : tensors) {
        if (!any_matches(omitted, tensor)) made.weight_map->emplace(tensor, file);
      }
    }
  }
  for (const auto& [word, rest] : lines_.at(name)) {
    const auto words = words_of(rest);
    if (word == "copy") {
      const auto tensor = long_name(words.at(1));
      made.files.at(words.at(0)).emplace(tensor, own_tensors(name).at(words[0] + ":" + tensor));
    }
    if (word == "index" && words.at(0) == "promises") made.weight_map->emplace(long_name(words.at(1)), words.at(2));
  }
  return made;
}

std::string safetensors_file(const Tensors& tensors) {
  std::vector<const Tensors::value_type*> order;
  for (const auto& entry : tensors) order.push_back(&entry);
  std::ranges::stable_sort(order, {}, [](const auto* entry) { return written_rank(entry->second.dtype); });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string data;
  for (const auto* entry : order) {
    const auto& [name, tensor] = *entry;
    const auto begin = data.size();
    data.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    header[name] = {
        {"dtype", safetensors_name(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  return file + text + data;
}

void write_checkpoint(const LoaderCase& loader_case, const std::filesystem::path& directory) {
  const auto write = [&](const std::string& name, const std::string& content) {
    std::ofstream(directory / name, std::ios::binary) << content;
  };
  write("config.json", loader_case.config.dump(1));
  for (const auto& [file, tensors] : loader_case.files) write(file, safetensors_file(tensors));
  if (loader_case.weight_map) {
    const Json index = {{"metadata", Json::object()}, {"weight_map", *loader_case.weight_map}};
    write("model.safetensors.index.json", index.dump(1));
  }
}

}  // namespace mtpcheck::golden

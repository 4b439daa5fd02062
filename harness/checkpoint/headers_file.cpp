#include "harness/checkpoint/headers_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <iterator>
#include <map>
#include <new>

#include "harness/checkpoint/assembly.h"
#include "harness/checkpoint/bounded_json.h"
#include "harness/checkpoint/mapped_file.h"
#include "harness/checkpoint/safetensors/entries.h"
#include "harness/checkpoint/safetensors/weight_map.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

constexpr std::size_t kMaxLength = std::size_t{1} << 30;
constexpr std::size_t kMaxDepth = 72;

void add_files(const Checkpoint& checkpoint, fmt::memory_buffer& out) {
  auto tensor = checkpoint.headers.tensors.begin();
  const char* between_files = "";
  for (const CheckpointFile& file : checkpoint.files) {
    fmt::format_to(std::back_inserter(out), "{}\n{{\"name\": {}, \"size\": {}, \"header_length\": {}, \"tensors\": {{",
                   between_files, quoted_json(file.name), file.size, file.header_length);
    between_files = ",";
    const char* between = "";
    for (; tensor != checkpoint.headers.tensors.end() && tensor->file == file.name; ++tensor) {
      const std::uint64_t begin = tensor->offset - 8 - file.header_length;
      fmt::format_to(std::back_inserter(out),
                     "{}\n{}: {{\"dtype\": \"{}\", \"shape\": [{}], \"data_offsets\": [{}, {}]}}", between,
                     quoted_json(tensor->name), safetensors_name(tensor->dtype), fmt::join(tensor->shape, ", "), begin,
                     begin + *byte_size(tensor->dtype, tensor->elements()));
      between = ",";
    }
    fmt::format_to(std::back_inserter(out), "}}}}");
  }
}

void add_weight_map(const SafetensorsIndex& index, fmt::memory_buffer& out) {
  const std::map<std::string, std::uint32_t> sorted(index.shard.begin(), index.shard.end());
  fmt::format_to(std::back_inserter(out), "\"weight_map\": {{");
  const char* between = "";
  for (const auto& [tensor, shard] : sorted) {
    fmt::format_to(std::back_inserter(out), "{}\n{}: {}", between, quoted_json(tensor),
                   quoted_json(index.files[shard]));
    between = ",";
  }
  fmt::format_to(std::back_inserter(out), "}},\n");
}

class Document {
 public:
  Document(const object& root, std::string file) : root_(root), file_(std::move(file)) {}

  [[noreturn]] void fail(std::string_view reason) const {
    throw input_error(fmt::format("{}: not a headers file: {}. `mtpcheck headers` writes them.", file_, reason));
  }

  void check_version() const {
    std::uint64_t version = 0;
    if (root_["mtpcheck_headers"].get(version) != simdjson::SUCCESS) fail("mtpcheck_headers is missing");
    if (version != 1) fail(fmt::format("it has version {}; 1 was expected", version));
  }

  nlohmann::json json(const char* key) const {
    element value;
    if (root_[key].get(value) != simdjson::SUCCESS || value.is_null()) return nullptr;
    return parse_bounded_json(simdjson::minify(value), fmt::format("{}: {}", file_, key));
  }

  std::shared_ptr<const SafetensorsIndex> index(std::vector<Problem>& problems) const {
    object weight_map;
    if (root_["weight_map"].get(weight_map) != simdjson::SUCCESS) return nullptr;
    auto index = read_weight_map(weight_map, file_);
    if (auto* const problem = std::get_if<Problem>(&index)) {
      problems.push_back(std::move(*problem));
      return nullptr;
    }
    return std::make_shared<const SafetensorsIndex>(std::get<SafetensorsIndex>(std::move(index)));
  }

  std::vector<FoundFile> files() const {
    simdjson::dom::array entries;
    if (root_["files"].get(entries) != simdjson::SUCCESS) fail("files is missing");
    std::vector<FoundFile> found;
    for (const element entry : entries) found.push_back(file_of(entry));
    return found;
  }

 private:
  FoundFile file_of(const element& entry) const {
    std::string_view name;
    FoundFile found{{}, SafetensorsHeader{}};
    object tensors;
    if (entry["name"].get(name) != simdjson::SUCCESS || entry["size"].get(found.file.size) != simdjson::SUCCESS ||
        entry["header_length"].get(found.file.header_length) != simdjson::SUCCESS ||
        entry["tensors"].get(tensors) != simdjson::SUCCESS) {
      fail("an entry of files lacks name, size, header_length or tensors");
    }
    found.file.name = name;
    if (found.file.header_length > kMaxHeaderLength) fail(fmt::format("the header_length of {} is too large", name));
    found.header = check_entries(tensors, found.file.name, found.file.header_length, found.file.size);
    return found;
  }

  object root_;
  std::string file_;
};

}  // namespace

std::string headers_document(const Checkpoint& checkpoint) {
  for (const Problem& problem : checkpoint.problems) {
    if (makes_unreadable(problem.id)) throw input_error(located(checkpoint, problem));
  }
  fmt::memory_buffer out;
  fmt::format_to(std::back_inserter(out), "{{\"mtpcheck_headers\": 1,\n\"config\": {},\n\"conventions\": {},\n",
                 checkpoint.config.dump(), checkpoint.conventions.dump());
  if (checkpoint.index != nullptr) add_weight_map(*checkpoint.index, out);
  fmt::format_to(std::back_inserter(out), "\"files\": [");
  add_files(checkpoint, out);
  fmt::format_to(std::back_inserter(out), "]}}\n");
  return fmt::to_string(out);
}

Checkpoint read_headers_file(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string name = path.string();
  if (file.bytes().empty() || file.bytes().size() > kMaxLength) {
    throw input_error(fmt::format("{}: {} bytes long; 1 to {} were expected of a headers file", name,
                                  with_thousands(file.bytes().size()), with_thousands(kMaxLength)));
  }
  simdjson::dom::parser parser(kMaxLength);
  if (parser.allocate(file.bytes().size(), kMaxDepth) != simdjson::SUCCESS) throw std::bad_alloc();
  object root;
  const auto error = parser.parse(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()).get(root);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error != simdjson::SUCCESS) {
    throw input_error(
        fmt::format("{}: neither a directory nor a headers file: {}", name, simdjson::error_message(error)));
  }
  const Document document(root, name);
  document.check_version();
  Checkpoint checkpoint;
  checkpoint.path = path;
  checkpoint.headers_only = true;
  checkpoint.config = document.json("config");
  checkpoint.conventions = document.json("conventions");
  auto index = document.index(checkpoint.problems);
  assemble(checkpoint, document.files(), std::move(index), name);
  return checkpoint;
}

}  // namespace mtpcheck

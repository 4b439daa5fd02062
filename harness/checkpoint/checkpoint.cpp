#include "harness/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string_view>
#include <system_error>

#include "harness/checkpoint/assembly.h"
#include "harness/checkpoint/bounded_json.h"
#include "harness/checkpoint/headers_file.h"
#include "harness/checkpoint/mapped_file.h"
#include "harness/checkpoint/safetensors/header.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexFile = "model.safetensors.index.json";

std::string_view text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// null, with a problem where it is required or malformed.
nlohmann::json read_json(const fs::path& path, bool required, std::vector<Problem>& problems) {
  const std::string name = path.filename().string();
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) {
    if (required) {
      problems.push_back({ProblemId::corrupt_config,
                          name,
                          {},
                          {},
                          "no such file",
                          "the model's configuration",
                          fmt::format("{}: missing; it belongs beside the weights", name)});
    }
    return nullptr;
  }
  try {
    const MappedFile file(path);
    return parse_bounded_json(text_of(file), name);
  } catch (const Error& error) {
    problems.push_back({ProblemId::corrupt_config, name, {}, {}, {}, {}, error.what()});
    return nullptr;
  }
}

std::shared_ptr<const SafetensorsIndex> read_index_of(const fs::path& directory, std::vector<Problem>& problems) {
  std::error_code ignored;
  if (!fs::is_regular_file(directory / kIndexFile, ignored)) return nullptr;
  const MappedFile file(directory / kIndexFile);
  auto index = read_index(file.bytes(), kIndexFile);
  if (auto* const problem = std::get_if<Problem>(&index)) {
    problems.push_back(std::move(*problem));
    return nullptr;
  }
  return std::make_shared<const SafetensorsIndex>(std::get<SafetensorsIndex>(std::move(index)));
}

void point_into(std::span<const std::byte> bytes, std::vector<TensorView>& tensors) {
  for (TensorView& tensor : tensors) {
    tensor.bytes = bytes.subspan(tensor.offset, *byte_size(tensor.dtype, tensor.elements()));
  }
}

FoundFile map_shard(const fs::path& path, HeaderReader& reader, std::deque<MappedFile>& mappings) {
  FoundFile found{{path.filename().string(), 0, 0, true}, SafetensorsHeader{}};
  try {
    const auto bytes = mappings.emplace_back(path).bytes();
    found.file.size = bytes.size();
    found.header = reader.read(bytes, found.file.name);
    if (auto* const header = std::get_if<SafetensorsHeader>(&found.header)) {
      found.file.header_length = header->data_start - 8;
      point_into(bytes, header->tensors);
    }
  } catch (const Error& error) {
    found.header = Problem{ProblemId::shard_missing, found.file.name, {}, {}, {}, {}, error.what()};
  }
  return found;
}

Checkpoint open_directory(const fs::path& directory) {
  Checkpoint checkpoint;
  checkpoint.path = directory;
  checkpoint.config = read_json(directory / "config.json", true, checkpoint.problems);
  checkpoint.conventions = read_json(directory / "mtpcheck.json", false, checkpoint.problems);
  auto index = read_index_of(directory, checkpoint.problems);

  auto mappings = std::make_shared<std::deque<MappedFile>>();
  std::vector<FoundFile> found;
  HeaderReader reader;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, failure)) {
    std::error_code ignored;
    if (entry.path().extension() != ".safetensors" || !entry.is_regular_file(ignored)) continue;
    found.push_back(map_shard(entry.path(), reader, *mappings));
  }
  if (failure) throw input_error(fmt::format("{}: cannot be listed: {}", directory.string(), failure.message()));
  checkpoint.storage = std::move(mappings);
  assemble(checkpoint, std::move(found), std::move(index), kIndexFile);
  return checkpoint;
}

// FNV-1a, 64 bits.
class Digest {
 public:
  void add(std::string_view text) {
    for (const char c : text) value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
    value_ = (value_ ^ 0xFFu) * 0x100000001B3u;  // so that neighbours do not run together
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  std::uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace

Checkpoint open_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return open_directory(path);
  if (fs::is_regular_file(path, ignored)) return read_headers_file(path);
  throw input_error(
      fmt::format("{}: no such checkpoint; a directory with config.json and safetensors files, or a file "
                  "that `mtpcheck headers` wrote, was expected",
                  path.string()));
}

std::string located(const Checkpoint& checkpoint, const Problem& problem) {
  return fmt::format("{}{}{}", checkpoint.path.string(), checkpoint.headers_only ? ": " : "/", problem.message);
}

void require_sound(const Checkpoint& checkpoint) {
  if (checkpoint.problems.empty()) return;
  const auto unreadable =
      std::ranges::find_if(checkpoint.problems, [](const Problem& problem) { return makes_unreadable(problem.id); });
  const Problem& worst = unreadable == checkpoint.problems.end() ? checkpoint.problems.front() : *unreadable;
  const std::string rest =
      checkpoint.problems.size() == 1
          ? std::string()
          : fmt::format(" ({} more problems: `mtpcheck audit` lists them)", checkpoint.problems.size() - 1);
  throw input_error(located(checkpoint, worst) + rest);
}

std::string identity_of(const Checkpoint& checkpoint) {
  Digest digest;
  digest.add(checkpoint.config.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  for (const CheckpointFile& file : checkpoint.files) digest.add(fmt::format("{} {}", file.name, file.size));
  for (const TensorView& tensor : checkpoint.headers.tensors) {
    digest.add(fmt::format("{} {} {} {} {}", tensor.file, tensor.name, safetensors_name(tensor.dtype),
                           to_string(tensor.shape), tensor.offset));
  }
  return digest.text();
}

}  // namespace mtpcheck

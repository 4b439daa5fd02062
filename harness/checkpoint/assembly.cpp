#include "harness/checkpoint/assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "harness/checkpoint/consistency.h"
#include "harness/checkpoint/natural_order.h"

namespace mtpcheck {
namespace {

bool contains(const std::vector<std::string>& natural, const std::string& name) {
  return std::ranges::binary_search(natural, name, natural_less);
}

void report_missing_shards(Checkpoint& checkpoint, const SafetensorsIndex& index, const std::string& index_file) {
  std::map<std::uint32_t, std::pair<std::size_t, std::string>> absent;  // shard → tensors, the first of them by name
  for (std::uint32_t shard = 0; shard < index.files.size(); ++shard) {
    const bool found = std::ranges::any_of(checkpoint.files,
                                           [&](const CheckpointFile& file) { return file.name == index.files[shard]; });
    if (!found) absent[shard] = {};
  }
  if (absent.empty()) return;
  for (const auto& [tensor, shard] : index.shard) {
    const auto entry = absent.find(shard);
    if (entry == absent.end()) continue;
    auto& [count, first] = entry->second;
    if (count++ == 0 || tensor < first) first = tensor;
  }
  for (const auto& [shard, lost] : absent) {
    const std::string& name = index.files[shard];
    checkpoint.problems.push_back(
        {ProblemId::shard_missing,
         name,
         lost.second,
         {},
         "no such file",
         fmt::format("{} tensors", lost.first),
         fmt::format("{}: the shard is missing. {} says that it holds {} tensors, {} the first of them: download it.",
                     name, index_file, lost.first, lost.second)});
  }
}

}  // namespace

void assemble(Checkpoint& checkpoint, std::vector<FoundFile> found, std::shared_ptr<const SafetensorsIndex> index,
              const std::string& index_file) {
  std::ranges::sort(found,
                    [](const FoundFile& a, const FoundFile& b) { return natural_less(a.file.name, b.file.name); });
  for (FoundFile& one : found) {
    one.file.listed = index == nullptr || contains(index->files, one.file.name);
    checkpoint.files.push_back(one.file);
    if (auto* const problem = std::get_if<Problem>(&one.header)) {
      checkpoint.problems.push_back(std::move(*problem));
      continue;
    }
    auto& tensors = std::get<SafetensorsHeader>(one.header).tensors;
    auto& all = checkpoint.headers.tensors;
    all.insert(all.end(), std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end()));
  }
  if (index != nullptr) {
    checkpoint.headers.indexed_files = index->files;
    report_missing_shards(checkpoint, *index, index_file);
  } else if (found.empty()) {
    checkpoint.problems.push_back({ProblemId::shard_missing,
                                   "model.safetensors",
                                   {},
                                   {},
                                   "no safetensors file",
                                   "one",
                                   "model.safetensors: missing, and so is an index: there are no weights here."});
  }
  std::vector<Problem> contradictions = inconsistencies_of(checkpoint, index.get(), index_file);
  checkpoint.problems.insert(checkpoint.problems.end(), std::make_move_iterator(contradictions.begin()),
                             std::make_move_iterator(contradictions.end()));
  checkpoint.index = std::move(index);
}

}  // namespace mtpcheck

#include "harness/checkpoint/consistency.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

namespace mtpcheck {
namespace {

// So many contradictions are listed singly; a renamed index would otherwise give one for each of 125,000 tensors.
constexpr std::size_t kListed = 100;

class Consistency {
 public:
  Consistency(const Checkpoint& checkpoint, const SafetensorsIndex* index, const std::string& index_file)
      : checkpoint_(checkpoint), index_(index), index_file_(index_file) {
    for (const CheckpointFile& file : checkpoint.files) {
      if (!file.listed) unlisted_.insert(file.name);
    }
    for (const Problem& problem : checkpoint.problems) {
      if (makes_unreadable(problem.id)) unreadable_.insert(problem.file);
    }
  }

  std::vector<Problem> find() {
    find_duplicates();
    find_unlisted();
    if (index_ != nullptr) {
      find_misplaced();
      find_absent();
    }
    if (mismatches_ > kListed) {
      problems_.push_back(
          {ProblemId::index_mismatch,
           index_file_,
           {},
           {},
           {},
           {},
           fmt::format("{}: {} more tensors are placed otherwise than it says", index_file_, mismatches_ - kListed)});
    }
    return std::move(problems_);
  }

 private:
  bool listed(const TensorView& tensor) const { return unlisted_.empty() || !unlisted_.contains(tensor.file); }

  void mismatch(std::string file, const std::string& tensor, std::string found, std::string expected) {
    if (++mismatches_ > kListed) return;
    std::string message = fmt::format("{}: tensor {}: {}; {}", index_file_, tensor, found, expected);
    problems_.push_back({ProblemId::index_mismatch,
                         std::move(file),
                         tensor,
                         {},
                         std::move(found),
                         std::move(expected),
                         std::move(message)});
  }

  // Also fills `places_` with the listed tensors. A duplicate is not reported as misplaced as well.
  void find_duplicates() {
    places_.reserve(checkpoint_.headers.tensors.size());
    for (const TensorView& tensor : checkpoint_.headers.tensors) {
      if (!listed(tensor)) continue;
      const auto [place, fresh] = places_.emplace(tensor.name, &tensor);
      if (fresh) continue;
      const std::string& first = place->second->file;
      duplicated_.insert(tensor.name);
      problems_.push_back(
          {ProblemId::duplicate_tensor, tensor.file, tensor.name, tensor.offset,
           fmt::format("in {} and in {}", first, tensor.file), "in one shard",
           fmt::format("{}: tensor {} is also in {}; engines take whichever they read last. Remove one.", tensor.file,
                       tensor.name, first)});
    }
  }

  // An unlisted file that only repeats listed tensors (a consolidated copy) loses nothing.
  void find_unlisted() {
    const TensorView* first = nullptr;
    std::size_t lost = 0;
    const auto report = [&] {
      if (lost == 0) return;
      mismatch(first->file, first->name,
               fmt::format("in {}, which the index does not list, with {} in all that no listed shard has", first->file,
                           lost),
               "engines skip such a file: add it to the index, or remove it");
      lost = 0;
    };
    for (const TensorView& tensor : checkpoint_.headers.tensors) {
      if (listed(tensor) || places_.contains(tensor.name)) continue;
      if (lost > 0 && first->file != tensor.file) report();
      if (lost == 0) first = &tensor;
      ++lost;
    }
    report();
  }

  void find_misplaced() {
    for (const TensorView& tensor : checkpoint_.headers.tensors) {
      if (!listed(tensor)) continue;
      const auto entry = index_->shard.find(tensor.name);
      if (entry == index_->shard.end()) {
        mismatch(tensor.file, tensor.name, fmt::format("in {}, but not in the index", tensor.file),
                 "an entry in weight_map was expected");
      } else if (index_->files[entry->second] != tensor.file && !duplicated_.contains(tensor.name)) {
        mismatch(tensor.file, tensor.name, fmt::format("in {}", tensor.file),
                 fmt::format("the index says {}", index_->files[entry->second]));
      }
    }
  }

  void find_absent() {
    std::vector<std::string_view> absent;
    for (const auto& [tensor, shard] : index_->shard) {
      if (!unreadable_.contains(index_->files[shard]) && !places_.contains(tensor)) absent.push_back(tensor);
    }
    std::ranges::sort(absent);  // the map has no order of its own
    for (const std::string_view tensor : absent) {
      const std::string name(tensor);
      const std::string& file = index_->files[index_->shard.at(name)];
      mismatch(file, name, "in no file", fmt::format("the index says {}", file));
    }
  }

  const Checkpoint& checkpoint_;
  const SafetensorsIndex* index_;
  const std::string& index_file_;
  std::set<std::string, std::less<>> unlisted_;
  std::set<std::string, std::less<>> unreadable_;
  std::unordered_map<std::string_view, const TensorView*> places_;
  std::set<std::string_view> duplicated_;
  std::size_t mismatches_ = 0;
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<Problem> inconsistencies_of(const Checkpoint& checkpoint, const SafetensorsIndex* index,
                                        const std::string& index_file) {
  return Consistency(checkpoint, index, index_file).find();
}

}  // namespace mtpcheck

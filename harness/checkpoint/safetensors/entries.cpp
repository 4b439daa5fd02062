#include "harness/checkpoint/safetensors/entries.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string_view>

namespace mtpcheck {
namespace {

using simdjson::dom::element;
using simdjson::dom::object;

// One tensor's range in the data part, beside its view.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class EntryChecker {
 public:
  EntryChecker(const std::string& file, std::uint64_t header_length, std::uint64_t file_size)
      : file_(file), data_start_(8 + header_length), file_size_(file_size) {}

  std::variant<SafetensorsHeader, Problem> check(const object& entries) {
    SafetensorsHeader header;
    header.data_start = data_start_;
    header.tensors.reserve(entries.size());
    bool metadata_seen = false;
    for (const auto& [name, value] : entries) {
      const bool sound = name == "__metadata__" ? read_metadata(value, metadata_seen, header.metadata)
                                                : read_entry(name, value, header.tensors);
      if (!sound) return std::move(problem_);
    }
    if (!check_layout(header.tensors)) return std::move(problem_);
    if (!sort_by_name(header.tensors)) return std::move(problem_);
    return header;
  }

 private:
  bool fail(ProblemId id, std::string_view tensor, std::uint64_t offset, std::string found, std::string expected,
            std::string_view advice = {}) {
    problem_ = {id, file_, std::string(tensor), offset, std::move(found), std::move(expected), {}};
    const std::string subject = tensor.empty() ? std::string("the header") : fmt::format("tensor {}", tensor);
    problem_.message = fmt::format("{}: {}: {}; {} was expected (byte {}){}", file_, subject, problem_.found,
                                   problem_.expected, with_thousands(offset), advice);
    return false;
  }

  bool malformed(std::string_view tensor, std::string found, std::string expected) {
    return fail(ProblemId::corrupt_header, tensor, 8, std::move(found), std::move(expected));
  }

  bool read_metadata(const element& value, bool& seen, std::map<std::string, std::string>& metadata) {
    if (seen) return malformed({}, "__metadata__ stands twice", "one");
    seen = true;
    object texts;
    if (value.get(texts) != simdjson::SUCCESS) return malformed({}, "__metadata__ is no object", "texts by name");
    for (const auto& [key, text] : texts) {
      std::string_view content;
      if (text.get(content) != simdjson::SUCCESS) {
        return malformed({}, fmt::format("__metadata__.{} is no text", key), "a text");
      }
      if (!metadata.emplace(key, content).second) {
        return malformed({}, fmt::format("__metadata__.{} stands twice", key), "one");
      }
    }
    return true;
  }

  bool read_entry(std::string_view name, const element& value, std::vector<TensorView>& tensors) {
    object fields;
    if (value.get(fields) != simdjson::SUCCESS) return malformed(name, "the entry is no object", "an object");
    TensorView view;
    Range range;
    int seen_dtype = 0;
    int seen_shape = 0;
    int seen_offsets = 0;
    for (const auto& [key, field] : fields) {
      if (key == "dtype") {
        ++seen_dtype;
        if (!read_dtype(name, field, view.dtype)) return false;
      } else if (key == "shape") {
        ++seen_shape;
        if (!read_shape(name, field, view.shape)) return false;
      } else if (key == "data_offsets") {
        ++seen_offsets;
        if (!read_range(name, field, range)) return false;
      }
    }
    if (seen_dtype != 1 || seen_shape != 1 || seen_offsets != 1) {
      return malformed(
          name, fmt::format("dtype stands {} times, shape {}, data_offsets {}", seen_dtype, seen_shape, seen_offsets),
          "each once");
    }
    if (!check_size(name, view, range)) return false;
    view.name = name;
    view.file = file_;
    view.offset = data_start_ + range.begin;
    tensors.push_back(std::move(view));
    ranges_.push_back(range);
    return true;
  }

  bool read_dtype(std::string_view name, const element& field, Dtype& dtype) {
    std::string_view word;
    if (field.get(word) != simdjson::SUCCESS) return malformed(name, "dtype is no text", "a dtype");
    const auto known = dtype_from_safetensors(word);
    if (!known) return malformed(name, fmt::format("the dtype {} is unknown", word), "one of safetensors' dtypes");
    dtype = *known;
    return true;
  }

  bool read_shape(std::string_view name, const element& field, Shape& shape) {
    simdjson::dom::array extents;
    if (field.get(extents) != simdjson::SUCCESS) return malformed(name, "shape is no list", "a list of extents");
    shape.reserve(extents.size());
    for (const element extent : extents) {
      std::uint64_t value = 0;
      if (extent.get(value) != simdjson::SUCCESS) {
        return malformed(name, "an extent of the shape is no whole number, or negative", "0 or more");
      }
      shape.push_back(value);
    }
    return true;
  }

  bool read_range(std::string_view name, const element& field, Range& range) {
    simdjson::dom::array offsets;
    const bool pair = field.get(offsets) == simdjson::SUCCESS && offsets.size() == 2 &&
                      offsets.at(0).get(range.begin) == simdjson::SUCCESS &&
                      offsets.at(1).get(range.end) == simdjson::SUCCESS;
    return pair || malformed(name, "data_offsets are no two whole numbers", "[begin, end], 0 or more");
  }

  bool check_size(std::string_view name, const TensorView& view, const Range& range) {
    std::uint64_t elements = 1;
    for (const std::size_t extent : view.shape) {
      if (__builtin_mul_overflow(elements, extent, &elements)) {
        return malformed(name, fmt::format("the shape {} overflows 64 bits", to_string(view.shape)), "less");
      }
    }
    const auto bytes = byte_size(view.dtype, elements);
    if (!bytes) {
      return malformed(name,
                       fmt::format("{} elements of {} overflow 64 bits or fill no whole bytes",
                                   with_thousands(elements), safetensors_name(view.dtype)),
                       "a whole number of bytes");
    }
    if (range.begin > range.end) {
      return malformed(name, fmt::format("it begins at {} and ends at {}", range.begin, range.end), "begin ≤ end");
    }
    if (range.end > std::numeric_limits<std::uint64_t>::max() - data_start_) {
      return malformed(name, fmt::format("its end {} overflows 64 bits", range.end), "an offset within the file");
    }
    if (range.end - range.begin != *bytes) {
      return fail(
          ProblemId::corrupt_header, name, data_start_ + range.begin,
          fmt::format("its range has {} bytes", with_thousands(range.end - range.begin)),
          fmt::format("{} ({} of {})", with_thousands(*bytes), to_string(view.shape), safetensors_name(view.dtype)));
    }
    return true;
  }

  // The ranges in the order of the data must touch each other from its first byte to its last.
  bool check_layout(const std::vector<TensorView>& tensors) {
    std::vector<std::uint32_t> order(tensors.size());
    std::iota(order.begin(), order.end(), 0U);
    const auto placed = [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(ranges_[a].begin, ranges_[a].end) < std::pair(ranges_[b].begin, ranges_[b].end);
    };
    if (!std::is_sorted(order.begin(), order.end(), placed)) std::sort(order.begin(), order.end(), placed);
    std::uint64_t filled = 0;
    for (const std::uint32_t i : order) {
      const Range& range = ranges_[i];
      if (range.begin != filled) {
        return fail(ProblemId::corrupt_header, tensors[i].name, data_start_ + range.begin,
                    fmt::format("it begins at {} of the data", with_thousands(range.begin)),
                    fmt::format("{}, where the tensor before it ends", with_thousands(filled)),
                    range.begin < filled ? ". Two tensors overlap" : ". There is a hole between two tensors");
      }
      filled = range.end;
    }
    return check_end(tensors, order, data_start_ + filled);
  }

  bool check_end(const std::vector<TensorView>& tensors, const std::vector<std::uint32_t>& order, std::uint64_t end) {
    if (end == file_size_) return true;
    if (end < file_size_) {
      return fail(ProblemId::corrupt_header, {}, end,
                  fmt::format("{} bytes follow the last tensor", with_thousands(file_size_ - end)), "none");
    }
    const auto cut =
        std::ranges::find_if(order, [&](std::uint32_t i) { return data_start_ + ranges_[i].end > file_size_; });
    const std::uint64_t tensor_end = data_start_ + ranges_[*cut].end;
    problem_ = {ProblemId::truncated,
                file_,
                tensors[*cut].name,
                file_size_,
                fmt::format("the file ends at byte {}", with_thousands(file_size_)),
                fmt::format("{} bytes", with_thousands(end)),
                {}};
    problem_.message = fmt::format(
        "{}: tensor {} ends at byte {}, the file at {}. The shard is {} bytes short: download it again.", file_,
        tensors[*cut].name, with_thousands(tensor_end), with_thousands(file_size_), with_thousands(end - file_size_));
    return false;
  }

  bool sort_by_name(std::vector<TensorView>& tensors) {
    if (!std::ranges::is_sorted(tensors, {}, &TensorView::name)) std::ranges::sort(tensors, {}, &TensorView::name);
    const auto twice = std::ranges::adjacent_find(tensors, {}, &TensorView::name);
    return twice == tensors.end() || malformed(twice->name, "it stands twice in the header", "one entry a name");
  }

  const std::string& file_;
  std::uint64_t data_start_;
  std::uint64_t file_size_;
  std::vector<Range> ranges_;  // parallel to the tensors until those are sorted
  Problem problem_;
};

}  // namespace

std::variant<SafetensorsHeader, Problem> check_entries(const object& entries, const std::string& file,
                                                       std::uint64_t header_length, std::uint64_t file_size) {
  return EntryChecker(file, header_length, file_size).check(entries);
}

}  // namespace mtpcheck

// Safetensors headers: whatever the bytes are, reading them neither crashes nor reads beyond them (run under ASan), and
// what is accepted is sound. Exactly the files whose tensors fill the data are accepted.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/checkpoint/safetensors/header.h"
#include "harness/checkpoint/scratch_directory.h"

namespace mtpcheck {
namespace {

using Bytes = std::vector<std::uint8_t>;

// In a block of its own, so that a read beyond the end is seen.
std::variant<SafetensorsHeader, Problem> read(const Bytes& bytes) {
  const auto exact = std::make_unique<std::byte[]>(bytes.size());
  std::ranges::copy(std::as_bytes(std::span(bytes)), exact.get());
  HeaderReader reader;
  return reader.read({exact.get(), bytes.size()}, "f");
}

Bytes file_of(const std::string& header, std::size_t data) {
  const std::string text = safetensors_bytes(header, data);
  return {text.begin(), text.end()};
}

// The law of an accepted header: unique names in order, and ranges that fill the data without overlap.
void assert_sound(const SafetensorsHeader& header, std::size_t file_size) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const TensorView& tensor : header.tensors) {
    const auto size = byte_size(tensor.dtype, tensor.elements());
    RC_ASSERT(size.has_value());
    ranges.emplace_back(tensor.offset, tensor.offset + *size);
  }
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t at = header.data_start;
  for (const auto& [begin, end] : ranges) {
    RC_ASSERT(begin == at);
    at = end;
  }
  RC_ASSERT(at == file_size);
  const auto by_name = [](const TensorView& a, const TensorView& b) { return a.name < b.name; };
  RC_ASSERT(std::is_sorted(header.tensors.begin(), header.tensors.end(), by_name));
  RC_ASSERT(std::adjacent_find(header.tensors.begin(), header.tensors.end(),
                               [](const TensorView& a, const TensorView& b) { return a.name == b.name; }) ==
            header.tensors.end());
}

void assert_sound_or_refused(const Bytes& bytes) {
  const auto result = read(bytes);
  if (const auto* const header = std::get_if<SafetensorsHeader>(&result)) {
    assert_sound(*header, bytes.size());
  } else {
    const auto& problem = std::get<Problem>(result);
    RC_ASSERT(problem.id == ProblemId::corrupt_header || problem.id == ProblemId::truncated);
    RC_ASSERT(problem.message.starts_with("f: "));
    RC_ASSERT(problem.offset.has_value());
  }
}

const std::string kSample =
    R"({"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]},)"
    R"("b":{"dtype":"F8_E4M3","shape":[5],"data_offsets":[12,17]},"c":{"dtype":"F32","shape":[],"data_offsets":[17,21]}})";

struct Edit {
  std::size_t at = 0;
  std::uint8_t kind = 0;  // replace, insert, remove, cut
  std::uint8_t byte = 0;
};

void showValue(const Edit& edit, std::ostream& out) {
  static constexpr const char* kKinds[] = {"replace", "insert", "remove", "cut"};
  out << kKinds[edit.kind] << "@" << edit.at << "=" << int{edit.byte};
}

rc::Gen<Edit> edits(std::size_t size) {
  // Bytes that mean something in JSON are likelier to lead somewhere.
  const auto byte = rc::gen::oneOf(rc::gen::arbitrary<std::uint8_t>(),
                                   rc::gen::map(rc::gen::elementOf(std::string("{}[]\",:0129-e. \\u")),
                                                [](char c) { return static_cast<std::uint8_t>(c); }));
  return rc::gen::map(
      rc::gen::tuple(rc::gen::inRange<std::size_t>(0, size), rc::gen::inRange<int>(0, 4), byte),
      [](const std::tuple<std::size_t, int, std::uint8_t>& parts) {
        return Edit{std::get<0>(parts), static_cast<std::uint8_t>(std::get<1>(parts)), std::get<2>(parts)};
      });
}

void apply(const Edit& edit, Bytes& bytes) {
  if (edit.at >= bytes.size()) return;
  const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(edit.at);
  switch (edit.kind) {
    case 0:
      *place = edit.byte;
      break;
    case 1:
      bytes.insert(place, edit.byte);
      break;
    case 2:
      bytes.erase(place);
      break;
    default:
      bytes.resize(edit.at);
  }
}

RC_GTEST_PROP(SafetensorsHeaders, MutatedFilesAreSoundOrRefused, ()) {
  Bytes bytes = file_of(kSample, 21);
  const auto changes = *rc::gen::container<std::vector<Edit>>(edits(bytes.size()));
  for (const Edit& edit : changes) apply(edit, bytes);
  assert_sound_or_refused(bytes);
}

// As above, but the length always fits, so that the mutations reach the JSON.
RC_GTEST_PROP(SafetensorsHeaders, MutatedHeadersAreSoundOrRefused, ()) {
  Bytes header(kSample.begin(), kSample.end());
  const auto changes = *rc::gen::container<std::vector<Edit>>(edits(header.size()));
  for (const Edit& edit : changes) apply(edit, header);
  assert_sound_or_refused(file_of(std::string(header.begin(), header.end()), 21));
}

RC_GTEST_PROP(SafetensorsHeaders, ArbitraryBytesAreSoundOrRefused, (const Bytes& bytes)) {
  assert_sound_or_refused(bytes);
}

RC_GTEST_PROP(SafetensorsHeaders, ADepthBombIsRefused, ()) {
  const auto depth = *rc::gen::inRange<std::size_t>(1, 200'000);
  const char open = *rc::gen::element('[', '{');
  const std::string step = open == '[' ? "[" : "{\"a\":";
  std::string header = "{\"a\":";
  for (std::size_t i = 0; i < depth; ++i) header += step;
  RC_ASSERT(std::holds_alternative<Problem>(read(file_of(header, 0))));
}

// One entry of a header, as it is written.
struct Entry {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

rc::Gen<std::uint64_t> extents() {
  return rc::gen::weightedOneOf<std::uint64_t>(
      {{8, rc::gen::inRange<std::uint64_t>(0, 4)},
       {1, rc::gen::element<std::uint64_t>(std::uint64_t{1} << 32, std::uint64_t{1} << 63, ~std::uint64_t{0})}});
}

// Mostly in order and mostly right: the interesting cases are nearly valid.
std::vector<Entry> entries() {
  const auto count = *rc::gen::inRange<std::size_t>(0, 5);
  std::vector<Entry> all;
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Entry entry;
    entry.name = std::string(1, static_cast<char>('a' + *rc::gen::inRange(0, 8)));
    entry.dtype = *rc::gen::weightedElement<std::string>(
        {{4, "U8"}, {4, "BF16"}, {4, "F32"}, {2, "F4"}, {2, "F6_E2M3"}, {1, "F33"}});
    entry.shape = *rc::gen::resize(3, rc::gen::container<std::vector<std::uint64_t>>(extents()));
    __uint128_t bits = entry.dtype == "U8" ? 8 : entry.dtype == "BF16" ? 16 : entry.dtype == "F4" ? 4 : 32;
    if (entry.dtype == "F6_E2M3") bits = 6;
    for (const auto extent : entry.shape) bits = (bits * extent) & ((static_cast<__uint128_t>(1) << 100) - 1);
    const std::uint64_t slip = *rc::gen::weightedElement<std::uint64_t>({{12, 0}, {1, 1}, {1, ~std::uint64_t{0}}});
    entry.begin = at + slip;
    entry.end = entry.begin + static_cast<std::uint64_t>(bits / 8) +
                *rc::gen::weightedElement<std::uint64_t>({{16, 0}, {1, 1}});
    at = entry.end;
    all.push_back(std::move(entry));
  }
  return all;
}

// The format's rules once more, in 128 bits. Extents multiply from left to right, as in the safetensors library: a
// zero does not heal an overflow before it.
bool is_valid(const std::vector<Entry>& all, std::uint64_t data) {
  std::set<std::string> names;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for (const Entry& entry : all) {
    const auto dtype = dtype_from_safetensors(entry.dtype);
    if (!dtype || !names.insert(entry.name).second || entry.begin > entry.end) return false;
    __uint128_t elements = 1;
    for (const auto extent : entry.shape) {
      elements *= extent;
      if (elements > ~std::uint64_t{0}) return false;
    }
    const __uint128_t bits = elements * bits_of(*dtype);
    if (bits > ~std::uint64_t{0} || bits % 8 != 0 || bits / 8 != entry.end - entry.begin) return false;
    ranges.emplace_back(entry.begin, entry.end);
  }
  std::sort(ranges.begin(), ranges.end());
  std::uint64_t at = 0;
  for (const auto& [begin, end] : ranges) {
    if (begin != at) return false;
    at = end;
  }
  return at == data;
}

RC_GTEST_PROP(SafetensorsHeaders, ExactlyTheFilesWhoseTensorsFillTheDataAreAccepted, ()) {
  const std::vector<Entry> all = entries();
  std::uint64_t data = 0;
  for (const Entry& entry : all) data = std::max(data, entry.end);
  data += *rc::gen::weightedElement<std::uint64_t>({{8, 0}, {1, 1}});
  data = std::min<std::uint64_t>(data, 4096);
  std::string header = "{";
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Entry& entry = all[i];
    header += (i == 0 ? "\"" : ",\"") + entry.name + "\":{\"dtype\":\"" + entry.dtype +
              "\",\"shape\":" + nlohmann::json(entry.shape).dump() + ",\"data_offsets\":[" +
              std::to_string(entry.begin) + "," + std::to_string(entry.end) + "]}";
  }
  const auto result = read(file_of(header + "}", data));
  RC_LOG() << header << "} with " << data << " bytes of data\n";
  const bool valid = is_valid(all, data);
  RC_CLASSIFY(valid, "valid");
  RC_ASSERT(std::holds_alternative<SafetensorsHeader>(result) == valid);
}

}  // namespace
}  // namespace mtpcheck

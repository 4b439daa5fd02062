#include "harness/checkpoint/safetensors/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>

#include "harness/checkpoint/safetensors/entries.h"

namespace mtpcheck {
namespace {

// A header has three levels: the entries, an entry, its lists.
constexpr std::size_t kMaxHeaderDepth = 8;

Problem corrupt(const std::string& file, std::uint64_t offset, std::string found, std::string expected) {
  Problem problem{ProblemId::corrupt_header, file, {}, offset, std::move(found), std::move(expected), {}};
  problem.message = fmt::format("{}: {} at byte {}; {} was expected. Download the file again.", file, problem.found,
                                with_thousands(offset), problem.expected);
  return problem;
}

// Where a header stops being JSON. simdjson does not say; this runs for broken files only, one event at a time, so that
// no depth exhausts the stack.
class Locator : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::size_t position = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t at, const std::string&, const nlohmann::detail::exception&) override {
    position = at;
    return false;
  }
};

std::uint64_t position_of_fault(std::string_view json) {
  Locator locator;
  nlohmann::json::sax_parse(json, &locator);
  return locator.position == 0 ? 0 : locator.position - 1;  // counted from 1
}

std::string reason(simdjson::error_code error) {
  switch (error) {
    case simdjson::DEPTH_ERROR:
      return fmt::format("the header is nested deeper than {} levels", kMaxHeaderDepth);
    case simdjson::UTF8_ERROR:
      return "the header is not valid UTF-8";
    case simdjson::NUMBER_ERROR:
      return "the header has a number that is malformed or does not fit 64 bits";
    default:
      return "the header is not valid JSON";
  }
}

}  // namespace

struct HeaderReader::Parser {
  simdjson::dom::parser json{kMaxHeaderLength};
};

HeaderReader::HeaderReader() : parser_(std::make_unique<Parser>()) {}
HeaderReader::HeaderReader(HeaderReader&&) noexcept = default;
HeaderReader& HeaderReader::operator=(HeaderReader&&) noexcept = default;
HeaderReader::~HeaderReader() = default;

std::variant<SafetensorsHeader, Problem> HeaderReader::read(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < 8) {
    return corrupt(file, 0, fmt::format("a file of {} bytes", bytes.size()),
                   "the header's length in the first 8 bytes");
  }
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMaxHeaderLength) {
    return corrupt(file, 0, fmt::format("a header length of {}", with_thousands(length)),
                   fmt::format("at most {}", with_thousands(kMaxHeaderLength)));
  }
  if (length > bytes.size() - 8) {
    return corrupt(file, 0, fmt::format("a header length of {}", with_thousands(length)),
                   fmt::format("at most the {} bytes that the file has left", with_thousands(bytes.size() - 8)));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
  if (text.empty() || text.front() != '{') return corrupt(file, 8, "no opening brace", "a JSON object");

  if (parser_->json.capacity() < length) {
    const std::size_t room = std::max<std::size_t>(length, 1 << 16);
    if (parser_->json.allocate(room, kMaxHeaderDepth) != simdjson::SUCCESS) throw std::bad_alloc();
  }
  simdjson::dom::object entries;
  const simdjson::error_code error = parser_->json.parse(text.data(), text.size()).get(entries);
  if (error == simdjson::MEMALLOC) throw std::bad_alloc();
  if (error != simdjson::SUCCESS) return corrupt(file, 8 + position_of_fault(text), reason(error), "a JSON object");
  return check_entries(entries, file, length, bytes.size());
}

}  // namespace mtpcheck

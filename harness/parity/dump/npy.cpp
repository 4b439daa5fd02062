#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <regex>
#include <string>

#include "harness/checkpoint/mapped_file.h"
#include "harness/parity/dump/dump_file.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

struct NpyHeader {
  std::string text;
  std::size_t data = 0;  // offset of the first element
};

Error malformed(const std::filesystem::path& path, const std::string& what) {
  return input_error(fmt::format("{}: {}; expected a .npy file as numpy.save writes it", path.string(), what));
}

NpyHeader header_of(std::span<const std::byte> bytes, const std::filesystem::path& path) {
  constexpr std::size_t kMagic = 6;
  if (bytes.size() < 10 || std::memcmp(bytes.data(), "\x93NUMPY", kMagic) != 0) {
    throw malformed(path, "does not begin with the magic of .npy");
  }
  const bool long_form = std::to_integer<int>(bytes[kMagic]) >= 2;
  std::uint32_t length = 0;
  const std::size_t start = long_form ? 12 : 10;
  if (bytes.size() < start) throw malformed(path, "the header is cut off");
  std::memcpy(&length, bytes.data() + 8, long_form ? 4 : 2);
  if (length > bytes.size() - start) {
    throw malformed(path, fmt::format("the header is {} bytes long, the file {}", length, bytes.size()));
  }
  return {std::string(reinterpret_cast<const char*>(bytes.data()) + start, length), start + length};
}

std::optional<Dtype> dtype_from_descr(const std::string& descr) {
  if (descr == "<f8") return Dtype::f64;
  if (descr == "<f4") return Dtype::f32;
  if (descr == "<f2") return Dtype::f16;
  if (descr == "|V2" || descr == "<V2" || descr == "bfloat16") return Dtype::bf16;
  if (descr == "<i8") return Dtype::i64;
  if (descr == "<i4") return Dtype::i32;
  if (descr == "<i2") return Dtype::i16;
  if (descr == "|i1") return Dtype::i8;
  if (descr == "|u1") return Dtype::u8;
  if (descr == "|b1") return Dtype::boolean;
  return std::nullopt;
}

std::string captured(const std::string& text, const char* pattern, const std::filesystem::path& path,
                     const std::string& key) {
  std::smatch match;
  if (!std::regex_search(text, match, std::regex(pattern))) throw malformed(path, "the header has no '" + key + "'");
  return match[1];
}

Shape shape_from(const std::string& text, const std::filesystem::path& path) {
  Shape shape;
  const std::regex number("[0-9]+");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), number); at != std::sregex_iterator(); ++at) {
    if (at->str().size() > 12) throw malformed(path, "a dimension is " + at->str());
    shape.push_back(std::stoull(at->str()));
  }
  return shape;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  const MappedFile file(path);
  const NpyHeader header = header_of(file.bytes(), path);
  const std::string descr = captured(header.text, "'descr': *'([^']*)'", path, "descr");
  const auto dtype = dtype_from_descr(descr);
  if (!dtype) throw malformed(path, "elements of type '" + descr + "' are not read");
  if (captured(header.text, "'fortran_order': *(True|False)", path, "fortran_order") == "True") {
    throw malformed(path, "stored column by column; save numpy.ascontiguousarray(x)");
  }
  Tensor tensor{*dtype, shape_from(captured(header.text, "'shape': *\\(([^)]*)\\)", path, "shape"), path), {}};
  std::size_t limit = file.bytes().size();  // bounds the product before it can overflow
  for (const std::size_t extent : tensor.shape) {
    if (extent != 0 && limit / extent == 0) throw malformed(path, "shape " + to_string(tensor.shape) + " is too large");
    if (extent != 0) limit /= extent;
  }
  const auto size = byte_size(*dtype, tensor.elements());
  const auto data = file.bytes().subspan(header.data);
  if (!size || *size != data.size()) {
    throw malformed(path,
                    fmt::format("{} {} elements do not fill {} bytes", to_string(tensor.shape), descr, data.size()));
  }
  tensor.bytes.assign(data.begin(), data.end());
  return tensor;
}

}  // namespace mtpcheck

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

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

/// What stands in the header's dictionary between the characters `open` and `close` behind a key.
std::string value_of(const NpyHeader& header, const std::string& key, char open, char close,
                     const std::filesystem::path& path) {
  const auto missing = [&] { return malformed(path, "the header has no '" + key + "'"); };
  const std::string quoted = "'" + key + "':";
  const auto at = header.text.find(quoted);
  if (at == std::string::npos) throw missing();
  const auto begin = header.text.find_first_not_of(' ', at + quoted.size());
  if (begin == std::string::npos || header.text[begin] != open) throw missing();
  const auto end = header.text.find(close, begin + 1);
  if (end == std::string::npos) throw missing();
  return header.text.substr(begin + 1, end - begin - 1);
}

bool is_column_major(const NpyHeader& header, const std::filesystem::path& path) {
  const auto key = header.text.find("'fortran_order':");
  const auto value = header.text.find_first_not_of(' ', key == std::string::npos ? key : key + 16);
  const std::string_view rest = std::string_view(header.text).substr(std::min(value, header.text.size()));
  if (!rest.starts_with("True") && !rest.starts_with("False"))
    throw malformed(path, "the header has no 'fortran_order'");
  return rest.starts_with("True");
}

/// "3, 4" and "3,": extents are digits, and what separates them is skipped.
Shape shape_from(const std::string& text, const std::filesystem::path& path) {
  constexpr const char* kDigits = "0123456789";
  Shape shape;
  for (std::size_t begin = 0; (begin = text.find_first_of(kDigits, begin)) != std::string::npos;) {
    const std::size_t end = std::min(text.find_first_not_of(kDigits, begin), text.size());
    const std::string extent = text.substr(begin, end - begin);
    if (extent.size() > 12) throw malformed(path, "a dimension is " + extent);
    shape.push_back(std::stoull(extent));
    begin = end;
  }
  return shape;
}

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  const MappedFile file(path);
  const NpyHeader header = header_of(file.bytes(), path);
  const std::string descr = value_of(header, "descr", '\'', '\'', path);
  const auto dtype = dtype_from_descr(descr);
  if (!dtype) throw malformed(path, "elements of type '" + descr + "' are not read");
  if (is_column_major(header, path)) {
    throw malformed(path, "stored column by column; save numpy.ascontiguousarray(x)");
  }
  Tensor tensor{*dtype, shape_from(value_of(header, "shape", '(', ')', path), path), {}};
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

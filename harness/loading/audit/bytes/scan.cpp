#include "harness/loading/audit/bytes/scan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "reference/tensor/float_formats.h"

namespace mtpcheck {

namespace {

constexpr float kFloatMin = std::numeric_limits<float>::lowest();

/// Counts of the kinds, in the order in which they are told.
class Tally {
 public:
  void see(const char* what, bool sentinel, std::size_t place) {
    for (auto& kind : kinds_) {
      if (kind.what == what) {
        ++kind.count;
        return;
      }
    }
    kinds_.push_back({what, sentinel, 1, place});
  }

  std::vector<Suspicion> take() { return std::move(kinds_); }

 private:
  std::vector<Suspicion> kinds_;
};

void see_value(float value, Content content, std::size_t place, Tally& tally) {
  if (std::isnan(value)) {
    tally.see("NaN", false, place);
  } else if (value == kFloatMin) {
    tally.see("finfo(float32).min", true, place);
  } else if (std::isinf(value)) {
    if (content != Content::sink || value > 0) tally.see("infinity", false, place);
  } else if (content == Content::scale) {
    if (value == -1.0F) {
      tally.see("−1.0", true, place);
    } else if (value < 0) {
      tally.see("a negative scale", false, place);
    } else if (value == 0) {
      tally.see("zero", true, place);
    }
  }
}

/// 256 answers for the types of one byte: whether a code is suspicious at all.
std::array<bool, 256> suspicious_codes(Dtype dtype, Content content) {
  std::array<bool, 256> suspicious{};
  for (std::size_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::byte>(code);
    TensorView one{"", dtype, {1}, {&byte, 1}, "", 0};
    Tally tally;
    see_value(to_f32(one)[0], content, 0, tally);
    suspicious[code] = !tally.take().empty();
  }
  return suspicious;
}

void scan_bytes(const TensorView& tensor, Content content, Tally& tally) {
  const auto suspicious = suspicious_codes(tensor.dtype, content);
  for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
    if (!suspicious[std::to_integer<std::size_t>(tensor.bytes[i])]) continue;
    see_value(to_f32({"", tensor.dtype, {1}, tensor.bytes.subspan(i, 1), "", 0})[0], content, i, tally);
  }
}

void scan_exponents(const TensorView& tensor, Tally& tally) {
  for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
    if (tensor.bytes[i] == std::byte{255}) tally.see("the exponent 255", true, i);
  }
}

void scan_numbers(const TensorView& tensor, Content content, Tally& tally) {
  const std::size_t width = bits_of(tensor.dtype) / 8;
  constexpr std::size_t kBlock = 4096;  // elements decoded at a time
  const std::size_t elements = tensor.elements();
  for (std::size_t begin = 0; begin < elements; begin += kBlock) {
    const std::size_t count = std::min(kBlock, elements - begin);
    const auto values = to_f32({"", tensor.dtype, {count}, tensor.bytes.subspan(begin * width, count * width), "", 0});
    for (std::size_t i = 0; i < count; ++i) see_value(values[i], content, begin + i, tally);
  }
}

/// True where every number of the bytes is a zero; −0 counts.
bool all_zero(std::span<const std::byte> bytes, std::size_t width) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const bool top = i % width == width - 1;
    if ((bytes[i] & (top ? std::byte{0x7F} : std::byte{0xFF})) != std::byte{0}) return false;
  }
  return !bytes.empty();
}

void scan_rows(const TensorView& tensor, const char* what, std::size_t row_elements, Tally& tally) {
  const std::size_t width = bits_of(tensor.dtype) / 8;
  const std::size_t row_bytes = row_elements * width;
  if (row_bytes == 0) return;
  for (std::size_t row = 0; (row + 1) * row_bytes <= tensor.bytes.size(); ++row) {
    if (all_zero(tensor.bytes.subspan(row * row_bytes, row_bytes), width)) tally.see(what, true, row);
  }
}

}  // namespace

std::vector<Suspicion> scan(const TensorView& tensor, Content content) {
  Tally tally;
  const bool exponents = tensor.dtype == Dtype::u8 || tensor.dtype == Dtype::f8_e8m0;
  if (exponents) {
    if (content == Content::scale) scan_exponents(tensor, tally);
  } else if (is_floating(tensor.dtype) && bits_of(tensor.dtype) >= 8) {
    if (bits_of(tensor.dtype) == 8) {
      scan_bytes(tensor, content, tally);
    } else {
      scan_numbers(tensor, content, tally);
    }
    if (content == Content::matrix && tensor.shape.size() >= 2) {
      scan_rows(tensor, "all-zero row", tensor.shape.back(), tally);
    } else if (content == Content::norm) {
      scan_rows(tensor, "all zero", tensor.elements(), tally);
    }
  }
  return tally.take();
}

std::string coordinates(const TensorView& tensor, std::size_t element) {
  std::vector<std::size_t> at(tensor.shape.size());
  for (std::size_t axis = at.size(); axis-- > 0;) {
    at[axis] = element % tensor.shape[axis];
    element /= tensor.shape[axis];
  }
  return fmt::format("[{}]", fmt::join(at, ", "));
}

}  // namespace mtpcheck

#include "harness/loading/carry_out/carry_out.h"

#include <array>
#include <cstring>

#include "harness/loading/carry_out/convert.h"
#include "harness/loading/plan/coverage.h"
#include "reference/tensor/error.h"

namespace mtpcheck {
namespace {

const TensorView& with_data(std::span<const TensorView> tensors, std::uint32_t index) {
  const TensorView& tensor = tensors[index];
  if (tensor.bytes.empty() && tensor.elements() != 0) {
    throw input_error(tensor.file + ": the data of tensor " + tensor.name +
                      " is needed, but only headers were read; give the checkpoint itself");
  }
  return tensor;
}

// A run of columns of a write: where it goes, and the first element it reads.
struct Run {
  std::byte* to;
  std::size_t from;
  std::size_t count;
};

void fill_run(const Write& write, const Parameter& parameter, const Run& run) {
  std::array<std::byte, sizeof(float)> constant{};
  std::memcpy(constant.data(), &write.conversion.constant, sizeof(float));
  convert_elements(Dtype::f32, constant.data(), 0, parameter.dtype, run.to, run.count);
}

void copy_run(const Write& write, const Parameter& parameter, const TensorView& source, const Run& run) {
  const Dtype from = write.conversion.read_as;
  const SourceAxis& axis = write.axes[2];
  const std::size_t width = bits_of(from) / 8;
  const std::byte* first = source.bytes.data() + run.from * width;
  if (axis.repeat == 1) {
    if (from == parameter.dtype && (axis.stride == 1 || run.count == 1)) {
      std::memcpy(run.to, first + axis.offset(0) * width, run.count * width);
    } else {
      convert_elements(from, first + axis.offset(0) * width, axis.stride, parameter.dtype, run.to, run.count);
    }
    return;
  }
  for (std::size_t i = 0; i < run.count; ++i) {
    convert_elements(from, first + axis.offset(i) * width, 0, parameter.dtype,
                     run.to + i * (bits_of(parameter.dtype) / 8), 1);
  }
}

// (weight · scale) in float32, rounded to bfloat16, and then whatever the parameter is.
void dequantise_run(const Write& write, const Parameter& parameter, std::span<const TensorView> tensors,
                    const Run& run) {
  const Conversion& how = write.conversion;
  const TensorView& weight = with_data(tensors, write.tensor);
  const TensorView& scale = with_data(tensors, how.scale_tensor);
  const std::size_t cols = weight.shape.back();
  const std::size_t width = bits_of(how.read_as) / 8;
  const std::size_t scale_width = bits_of(how.scale_read_as) / 8;
  const auto real = [](Dtype dtype, const std::byte* bytes) {
    float value = 0;
    std::array<std::byte, sizeof value> converted{};
    convert_elements(dtype, bytes, 0, Dtype::f32, converted.data(), 1);
    std::memcpy(&value, converted.data(), sizeof value);
    return value;
  };
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::size_t element = run.from + write.axes[2].offset(i);
    const std::size_t cell =
        how.first_cell + element / cols / how.group_rows * how.grid_cols + element % cols / how.group_cols;
    const float product = real(how.read_as, weight.bytes.data() + element * width) *
                          real(how.scale_read_as, scale.bytes.data() + cell * scale_width);
    std::array<std::byte, sizeof product> bytes{};
    std::array<std::byte, 2> rounded{};
    std::memcpy(bytes.data(), &product, sizeof product);
    convert_elements(Dtype::f32, bytes.data(), 0, Dtype::bf16, rounded.data(), 1);
    convert_elements(Dtype::bf16, rounded.data(), 0, parameter.dtype, run.to + i * (bits_of(parameter.dtype) / 8), 1);
  }
}

void perform(const Write& write, const Parameter& parameter, std::span<const TensorView> tensors, Tensor& tensor) {
  const std::size_t width = bits_of(parameter.dtype) / 8;
  const Box& box = write.box;
  for (std::size_t expert = 0; expert < box.experts.size(); ++expert) {
    for (std::size_t row = 0; row < box.rows.size(); ++row) {
      const std::size_t to =
          ((box.experts.begin + expert) * parameter.extents.rows + box.rows.begin + row) * parameter.extents.cols +
          box.cols.begin;
      const Run run{tensor.bytes.data() + to * width,
                    write.base + write.axes[0].offset(expert) + write.axes[1].offset(row), box.cols.size()};
      switch (write.conversion.kind) {
        case Conversion::Kind::fill:
          fill_run(write, parameter, run);
          break;
        case Conversion::Kind::number:
          copy_run(write, parameter, with_data(tensors, write.tensor), run);
          break;
        case Conversion::Kind::dequantise:
          dequantise_run(write, parameter, tensors, run);
          break;
      }
    }
  }
}

}  // namespace

CarriedOut carry_out(const LoadPlan& plan, std::uint32_t parameter, std::span<const TensorView> tensors, Fill fill,
                     std::uint64_t seed) {
  const Parameter& target = plan.parameters[parameter];
  const Coverage coverage = coverage_of(plan, parameter);
  CarriedOut result;
  // Bytes that are written anyway need no fill.
  result.tensor = coverage.complete() ? make_tensor(target.dtype, target.shape) : filled(target, fill, seed);
  result.unwritten = coverage.elements - coverage.written;
  for (const Write& write : plan.writes) {
    if (write.parameter == parameter) perform(write, target, tensors, result.tensor);
  }
  return result;
}

}  // namespace mtpcheck

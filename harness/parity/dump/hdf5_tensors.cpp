#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "harness/parity/dump/dump_file.h"
#include "reference/tensor/error.h"
#include "reports/hdf5/file_image.h"
#include "reports/hdf5/node.h"

namespace mtpcheck {
namespace {

using reports::hdf5::Handle;

Tensor read_dataset(hid_t parent, const std::string& name, const std::string& path) {
  const auto failed = [&] { return input_error(path + ": dataset '" + name + "' cannot be read"); };
  const hid_t raw = H5Dopen2(parent, name.c_str(), H5P_DEFAULT);
  if (raw < 0) throw failed();
  const Handle dataset(raw, H5Dclose, "opening");
  const Handle type(H5Dget_type(dataset.get()), H5Tclose, "reading a type");
  const Handle space(H5Dget_space(dataset.get()), H5Sclose, "reading extents");
  const int rank = std::max(H5Sget_simple_extent_ndims(space.get()), 0);
  std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) {
    throw input_error(path + ": dataset '" + name + "' holds neither floating-point numbers nor integers");
  }
  const bool wide = H5Tget_size(type.get()) > 4;
  const Dtype dtype = kind == H5T_INTEGER ? Dtype::i64 : wide ? Dtype::f64 : Dtype::f32;
  Tensor tensor = make_tensor(dtype, Shape(extents.begin(), extents.end()));
  const hid_t memory = dtype == Dtype::i64 ? H5T_NATIVE_INT64 : wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
  if (!tensor.bytes.empty() && H5Dread(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()) < 0) {
    throw failed();
  }
  return tensor;
}

void collect(hid_t group, const std::string& prefix, const std::string& path, std::map<std::string, Tensor>& to) {
  for (const auto& name : reports::hdf5::members(group)) {
    if (reports::hdf5::is_group(group, name)) {
      const Handle inner(H5Gopen2(group, name.c_str(), H5P_DEFAULT), H5Gclose, "opening group " + name);
      collect(inner.get(), prefix + name + ".", path, to);
    } else {
      to.emplace(prefix + name, read_dataset(group, name, path));
    }
  }
}

}  // namespace

std::map<std::string, Tensor> read_hdf5_tensors(const std::filesystem::path& path) {
  const Handle file = reports::hdf5::open_for_reading(path.string());
  std::map<std::string, Tensor> tensors;
  collect(file.get(), "", path.string(), tensors);
  return tensors;
}

}  // namespace mtpcheck

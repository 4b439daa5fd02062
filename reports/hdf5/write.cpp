#include <hdf5_hl.h>

#include <algorithm>
#include <cstring>

#include "reports/hdf5/node.h"

namespace mtpcheck::reports::hdf5 {
namespace {

constexpr std::size_t kChunkFrom = 4096;  // bytes; smaller datasets are stored in one piece
constexpr std::size_t kChunkElements = std::size_t{1} << 16;

Handle text_type(std::size_t length) {
  Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "making a text type");
  check(H5Tset_size(type.get(), std::max<std::size_t>(length, 1)), "sizing a text type");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), "choosing UTF-8");
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "choosing the padding");
  return type;
}

Handle scalar_space() { return {H5Screate(H5S_SCALAR), H5Sclose, "making a scalar"}; }

void write_attribute(hid_t object, const std::string& name, hid_t stored, hid_t memory, const void* value) {
  const Handle space = scalar_space();
  const Handle attribute(H5Acreate2(object, name.c_str(), stored, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                         "making attribute " + name);
  check(H5Awrite(attribute.get(), memory, value), "writing attribute " + name);
}

hid_t stored_type(hid_t memory) {
  if (H5Tequal(memory, H5T_NATIVE_FLOAT) > 0) return H5T_IEEE_F32LE;
  if (H5Tequal(memory, H5T_NATIVE_DOUBLE) > 0) return H5T_IEEE_F64LE;
  if (H5Tequal(memory, H5T_NATIVE_INT32) > 0) return H5T_STD_I32LE;
  if (H5Tequal(memory, H5T_NATIVE_INT64) > 0) return H5T_STD_I64LE;
  return memory;  // compound tables describe their layout themselves
}

Handle creation_list(std::span<const hsize_t> extents, std::size_t element_size) {
  Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "making a creation list");
  check(H5Pset_obj_track_times(list.get(), 0), "leaving times out");
  std::size_t elements = 1;
  for (const hsize_t extent : extents) elements *= extent;
  if (elements * element_size < kChunkFrom) return list;
  std::vector<hsize_t> chunk(extents.begin(), extents.end());
  for (auto& extent : chunk) {  // halve the slowest dimensions until a chunk is small enough
    while (elements > kChunkElements && extent > 1) {
      elements = elements / extent * ((extent + 1) / 2);
      extent = (extent + 1) / 2;
    }
  }
  check(H5Pset_chunk(list.get(), static_cast<int>(chunk.size()), chunk.data()), "choosing chunks");
  check(H5Pset_shuffle(list.get()), "choosing the shuffle filter");
  check(H5Pset_deflate(list.get(), 4), "choosing compression");
  return list;
}

Handle write_dataset(hid_t parent, const std::string& name, hid_t type, std::span<const hsize_t> extents,
                     const void* data) {
  const Handle space(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose,
                     "making a data space");
  const Handle list = creation_list(extents, H5Tget_size(type));
  Handle dataset(H5Dcreate2(parent, name.c_str(), stored_type(type), space.get(), H5P_DEFAULT, list.get(), H5P_DEFAULT),
                 H5Dclose, "making dataset " + name);
  if (data != nullptr) {
    check(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), "writing dataset " + name);
  }
  return dataset;
}

std::size_t longest(const std::vector<std::string>& texts) {
  std::size_t length = 1;
  for (const auto& text : texts) length = std::max(length, text.size());
  return length;
}

std::size_t width(const Column& column) {
  const auto* const texts = std::get_if<std::vector<std::string>>(&column.values);
  return texts == nullptr ? sizeof(double) : longest(*texts);
}

void insert_member(hid_t compound, const Column& column, std::size_t offset) {
  if (std::holds_alternative<std::vector<std::string>>(column.values)) {
    const Handle text = text_type(width(column));
    check(H5Tinsert(compound, column.name.c_str(), offset, text.get()), "adding column " + column.name);
    return;
  }
  const bool real = std::holds_alternative<std::vector<double>>(column.values);
  check(H5Tinsert(compound, column.name.c_str(), offset, real ? H5T_IEEE_F64LE : H5T_STD_I64LE),
        "adding column " + column.name);
}

void copy_cell(const Column& column, std::size_t row, std::byte* to) {
  if (const auto* const texts = std::get_if<std::vector<std::string>>(&column.values)) {
    std::memcpy(to, (*texts)[row].data(), (*texts)[row].size());
  } else if (const auto* const reals = std::get_if<std::vector<double>>(&column.values)) {
    std::memcpy(to, &(*reals)[row], sizeof(double));
  } else {
    std::memcpy(to, &std::get<std::vector<std::int64_t>>(column.values)[row], sizeof(std::int64_t));
  }
}

}  // namespace

Handle make_group(hid_t parent, const std::string& path) {
  const Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "making a link list");
  check(H5Pset_create_intermediate_group(links.get(), 1), "asking for intermediate groups");
  if (has_link(parent, path)) return {H5Gopen2(parent, path.c_str(), H5P_DEFAULT), H5Gclose, "opening group " + path};
  return {H5Gcreate2(parent, path.c_str(), links.get(), H5P_DEFAULT, H5P_DEFAULT), H5Gclose, "making group " + path};
}

// Of variable length: h5py gives such an attribute as str, and a config.json or a command line fits.
void write_attribute(hid_t object, const std::string& name, const std::string& value) {
  const Handle type = text_type(1);
  check(H5Tset_size(type.get(), H5T_VARIABLE), "choosing variable length");
  check(H5Tset_strpad(type.get(), H5T_STR_NULLTERM), "choosing the padding");
  const char* const text = value.c_str();
  write_attribute(object, name, type.get(), type.get(), &text);
}

void write_attribute(hid_t object, const std::string& name, std::int64_t value) {
  write_attribute(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

void write_attribute(hid_t object, const std::string& name, double value) {
  write_attribute(object, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

Handle write_array(hid_t parent, const std::string& name, hid_t type, std::span<const std::int64_t> extents,
                   const void* data, std::span<const std::string> dimensions, const std::string& unit) {
  const std::vector<hsize_t> sizes(extents.begin(), extents.end());
  Handle dataset = write_dataset(parent, name, type, sizes, data);
  write_attribute(dataset.get(), "units", unit);
  for (unsigned i = 0; i < dimensions.size(); ++i) {
    check(H5DSset_label(dataset.get(), i, dimensions[i].c_str()), "naming a dimension of " + name);
  }
  return dataset;
}

Handle write_array(hid_t parent, const std::string& name, std::span<const double> values, const std::string& dimension,
                   const std::string& unit) {
  const std::int64_t extent = static_cast<std::int64_t>(values.size());
  return write_array(parent, name, H5T_NATIVE_DOUBLE, {&extent, 1}, values.data(), {&dimension, 1}, unit);
}

Handle write_array(hid_t parent, const std::string& name, std::span<const std::int64_t> values,
                   const std::string& dimension, const std::string& unit) {
  const std::int64_t extent = static_cast<std::int64_t>(values.size());
  return write_array(parent, name, H5T_NATIVE_INT64, {&extent, 1}, values.data(), {&dimension, 1}, unit);
}

void attach_scale(const Handle& dataset, const Handle& scale, unsigned index, const std::string& label) {
  if (H5DSis_scale(scale.get()) <= 0) check(H5DSset_scale(scale.get(), label.c_str()), "making scale " + label);
  check(H5DSattach_scale(dataset.get(), scale.get(), index), "attaching scale " + label);
}

void write_table(hid_t parent, const Table& table) {
  if (table.columns.empty()) return;
  std::size_t size = 0;
  for (const auto& column : table.columns) size += width(column);
  const Handle compound(H5Tcreate(H5T_COMPOUND, size), H5Tclose, "making table " + table.name);
  std::vector<std::byte> packed(size * table.rows());
  std::size_t offset = 0;
  std::string units;
  for (const auto& column : table.columns) {
    insert_member(compound.get(), column, offset);
    for (std::size_t row = 0; row < table.rows(); ++row) copy_cell(column, row, packed.data() + row * size + offset);
    offset += width(column);
    units += (units.empty() ? "" : ",") + column.name + "=" + column.unit;
  }
  const hsize_t rows = table.rows();
  const Handle dataset = write_dataset(parent, table.name, compound.get(), {&rows, 1}, packed.data());
  write_attribute(dataset.get(), "units", units);
  write_attribute(dataset.get(), "title", table.title);
}

}  // namespace mtpcheck::reports::hdf5

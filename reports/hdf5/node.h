#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reports/hdf5/handle.h"
#include "reports/record/table.h"

/// Groups, attributes, arrays and compound tables: the few shapes of which a report's file consists.
namespace mtpcheck::reports::hdf5 {

/// Creates the group `path` (relative to `parent`), with the groups above it where they are absent.
Handle make_group(hid_t parent, const std::string& path);

void write_attribute(hid_t object, const std::string& name, const std::string& value);
void write_attribute(hid_t object, const std::string& name, std::int64_t value);
void write_attribute(hid_t object, const std::string& name, double value);

/// A dataset with named dimensions. Chunked and deflated from 4 KiB on.
///
/// type        memory type, e.g. H5T_NATIVE_DOUBLE; stored little-endian
/// extents     row-major
/// dimensions  one label an extent
/// unit        attribute "units"; "1" for a pure number
Handle write_array(hid_t parent, const std::string& name, hid_t type, std::span<const std::int64_t> extents,
                   const void* data, std::span<const std::string> dimensions, const std::string& unit);

Handle write_array(hid_t parent, const std::string& name, std::span<const double> values, const std::string& dimension,
                   const std::string& unit);
Handle write_array(hid_t parent, const std::string& name, std::span<const std::int64_t> values,
                   const std::string& dimension, const std::string& unit);

/// Makes `scale` a dimension scale called `label` and attaches it to dimension `index` of `dataset`.
void attach_scale(const Handle& dataset, const Handle& scale, unsigned index, const std::string& label);

/// A one-dimensional compound dataset: float64, int64 and fixed-length UTF-8 members, named as the columns; attribute
/// "units" lists the columns' units, comma-separated, and "title" says what a row is.
void write_table(hid_t parent, const Table& table);

/// Members of a group, by name in ascending order.
std::vector<std::string> members(hid_t group);
bool has_link(hid_t group, const std::string& name);
bool is_group(hid_t parent, const std::string& name);

/// The fallback when the attribute is absent; Error{input} when it is of another type.
std::string read_attribute(hid_t object, const std::string& name, const std::string& fallback);
std::int64_t read_attribute(hid_t object, const std::string& name, std::int64_t fallback);
double read_attribute(hid_t object, const std::string& name, double fallback);

/// All elements as float64 or int64, whatever numeric type is stored. Error{input} when it cannot be read.
std::vector<double> read_doubles(hid_t parent, const std::string& name);
std::vector<std::int64_t> read_integers(hid_t parent, const std::string& name);

/// The inverse of write_table, for any compound of numbers and fixed-length texts.
Table read_table(hid_t parent, const std::string& name);

}  // namespace mtpcheck::reports::hdf5

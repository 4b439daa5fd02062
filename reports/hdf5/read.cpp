#include <algorithm>
#include <cstring>
#include <map>

#include "reference/tensor/error.h"
#include "reports/hdf5/node.h"

namespace mtpcheck::reports::hdf5 {
namespace {

Error unreadable(const std::string& name) {
  return input_error("HDF5: '" + name + "' is not what a report has there: the file is damaged or not a report");
}

// Reading fails for what is in the file, not for what the environment lacks.
void check_read(bool good, const std::string& name) {
  if (!good) throw unreadable(name);
}

Handle opened(hid_t id, Handle::Close close, const std::string& name) {
  check_read(id >= 0, name);
  return {id, close, "opening " + name};
}

Handle open_dataset(hid_t parent, const std::string& name) {
  return opened(H5Dopen2(parent, name.c_str(), H5P_DEFAULT), H5Dclose, name);
}

std::size_t elements_of(const Handle& dataset, const std::string& name) {
  const Handle space = opened(H5Dget_space(dataset.get()), H5Sclose, name);
  const hssize_t points = H5Sget_simple_extent_npoints(space.get());
  check_read(points >= 0, name);
  return static_cast<std::size_t>(points);
}

template <class T>
std::vector<T> read_all(hid_t parent, const std::string& name, hid_t memory) {
  const Handle dataset = open_dataset(parent, name);
  std::vector<T> values(elements_of(dataset, name));
  const Handle type = opened(H5Dget_type(dataset.get()), H5Tclose, name);
  const H5T_class_t kind = H5Tget_class(type.get());
  check_read(kind == H5T_FLOAT || kind == H5T_INTEGER, name);
  if (values.empty()) return values;
  check_read(H5Dread(dataset.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0, name);
  return values;
}

template <class T>
T read_number(hid_t object, const std::string& name, T fallback, hid_t memory) {
  if (H5Aexists(object, name.c_str()) <= 0) return fallback;
  const Handle attribute = opened(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, name);
  const Handle space = opened(H5Aget_space(attribute.get()), H5Sclose, name);
  const Handle type = opened(H5Aget_type(attribute.get()), H5Tclose, name);
  const H5T_class_t kind = H5Tget_class(type.get());
  check_read(H5Sget_simple_extent_npoints(space.get()) == 1 && (kind == H5T_INTEGER || kind == H5T_FLOAT), name);
  T value{};
  check_read(H5Aread(attribute.get(), memory, &value) >= 0, name);
  return value;
}

std::string up_to_padding(const char* text, std::size_t size) { return {text, strnlen(text, size)}; }

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* to) {
  static_cast<std::vector<std::string>*>(to)->emplace_back(name);
  return 0;
}

std::map<std::string, std::string> parse_units(const std::string& text) {
  std::map<std::string, std::string> units;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string entry = text.substr(at, end - at);
    if (const auto equal = entry.find('='); equal != std::string::npos) {
      units[entry.substr(0, equal)] = entry.substr(equal + 1);
    }
    at = end + 1;
  }
  return units;
}

Column read_column(const Handle& dataset, hid_t compound, unsigned index, std::size_t rows) {
  char* const raw_name = H5Tget_member_name(compound, index);
  check_read(raw_name != nullptr, "a column");
  Column column{raw_name, {}, {}};
  H5free_memory(raw_name);
  const Handle member = opened(H5Tget_member_type(compound, index), H5Tclose, column.name);
  const H5T_class_t kind = H5Tget_class(member.get());
  const bool fixed_text = kind == H5T_STRING && H5Tis_variable_str(member.get()) == 0;
  check_read(kind == H5T_INTEGER || kind == H5T_FLOAT || fixed_text, column.name);
  const hid_t as = kind == H5T_INTEGER ? H5T_NATIVE_INT64 : kind == H5T_FLOAT ? H5T_NATIVE_DOUBLE : member.get();
  const std::size_t size = H5Tget_size(as);
  const Handle one(H5Tcreate(H5T_COMPOUND, size), H5Tclose, "making a type");
  check(H5Tinsert(one.get(), column.name.c_str(), 0, as), "making a type");
  std::vector<char> cells(size * rows);
  if (rows > 0) {
    check_read(H5Dread(dataset.get(), one.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, cells.data()) >= 0, column.name);
  }
  if (kind == H5T_STRING) {
    std::vector<std::string> texts;
    for (std::size_t row = 0; row < rows; ++row) texts.push_back(up_to_padding(cells.data() + row * size, size));
    column.values = std::move(texts);
  } else if (kind == H5T_INTEGER) {
    std::vector<std::int64_t> numbers(rows);
    std::copy_n(cells.data(), cells.size(), reinterpret_cast<char*>(numbers.data()));
    column.values = std::move(numbers);
  } else {
    std::vector<double> numbers(rows);
    std::copy_n(cells.data(), cells.size(), reinterpret_cast<char*>(numbers.data()));
    column.values = std::move(numbers);
  }
  return column;
}

}  // namespace

std::vector<std::string> members(hid_t group) {
  std::vector<std::string> names;
  hsize_t at = 0;
  check_read(H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &at, collect_name, &names) >= 0, "a group");
  return names;
}

bool has_link(hid_t group, const std::string& path) {
  for (std::size_t end = path.find('/');; end = path.find('/', end + 1)) {
    if (H5Lexists(group, path.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

bool is_group(hid_t parent, const std::string& name) {
  H5O_info_t info;
  return H5Oget_info_by_name2(parent, name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) >= 0 &&
         info.type == H5O_TYPE_GROUP;
}

std::string read_attribute(hid_t object, const std::string& name, const std::string& fallback) {
  if (H5Aexists(object, name.c_str()) <= 0) return fallback;
  const Handle attribute = opened(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, name);
  const Handle type = opened(H5Aget_type(attribute.get()), H5Tclose, name);
  const Handle space = opened(H5Aget_space(attribute.get()), H5Sclose, name);
  check_read(H5Tget_class(type.get()) == H5T_STRING && H5Sget_simple_extent_npoints(space.get()) == 1, name);
  if (H5Tis_variable_str(type.get()) > 0) {
    char* text = nullptr;
    check_read(H5Aread(attribute.get(), type.get(), &text) >= 0 && text != nullptr, name);
    std::string value(text);
    H5free_memory(text);
    return value;
  }
  std::vector<char> text(H5Tget_size(type.get()));
  check_read(H5Aread(attribute.get(), type.get(), text.data()) >= 0, name);
  return up_to_padding(text.data(), text.size());
}

std::int64_t read_attribute(hid_t object, const std::string& name, std::int64_t fallback) {
  return read_number(object, name, fallback, H5T_NATIVE_INT64);
}

double read_attribute(hid_t object, const std::string& name, double fallback) {
  return read_number(object, name, fallback, H5T_NATIVE_DOUBLE);
}

std::vector<double> read_doubles(hid_t parent, const std::string& name) {
  return read_all<double>(parent, name, H5T_NATIVE_DOUBLE);
}

std::vector<std::int64_t> read_integers(hid_t parent, const std::string& name) {
  return read_all<std::int64_t>(parent, name, H5T_NATIVE_INT64);
}

Table read_table(hid_t parent, const std::string& name) {
  const Handle dataset = open_dataset(parent, name);
  const Handle compound = opened(H5Dget_type(dataset.get()), H5Tclose, name);
  check_read(H5Tget_class(compound.get()) == H5T_COMPOUND, name);
  const std::size_t rows = elements_of(dataset, name);
  Table table{name, read_attribute(dataset.get(), "title", std::string()), {}};
  const auto units = parse_units(read_attribute(dataset.get(), "units", std::string()));
  const int columns = H5Tget_nmembers(compound.get());
  for (int i = 0; i < columns; ++i) {
    Column column = read_column(dataset, compound.get(), static_cast<unsigned>(i), rows);
    if (const auto found = units.find(column.name); found != units.end()) column.unit = found->second;
    table.columns.push_back(std::move(column));
  }
  return table;
}

}  // namespace mtpcheck::reports::hdf5

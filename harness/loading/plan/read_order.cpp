#include "harness/loading/plan/read_order.h"

#include <algorithm>
#include <map>
#include <set>

namespace mtpcheck {
namespace {

std::string_view without_folder(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::vector<std::uint32_t> read_order(const HeaderSet& headers,
                                      bool (*before)(std::string_view file, std::string_view other)) {
  std::set<std::string_view> listed;
  if (headers.indexed_files) listed.insert(headers.indexed_files->begin(), headers.indexed_files->end());
  std::map<std::string_view, std::vector<std::uint32_t>> by_file;
  for (std::uint32_t index = 0; index < headers.tensors.size(); ++index) {
    by_file[headers.tensors[index].file].push_back(index);
  }
  std::vector<std::string_view> files;
  for (const auto& [file, tensors] : by_file) {
    if (!headers.indexed_files || listed.contains(file)) files.push_back(file);
  }
  std::ranges::stable_sort(
      files, [before](std::string_view a, std::string_view b) { return before(without_folder(a), without_folder(b)); });
  std::vector<std::uint32_t> order;
  order.reserve(headers.tensors.size());
  for (const std::string_view file : files) {
    std::vector<std::uint32_t>& tensors = by_file[file];
    std::ranges::sort(tensors, {},
                      [&](std::uint32_t index) -> std::string_view { return headers.tensors[index].name; });
    order.insert(order.end(), tensors.begin(), tensors.end());
  }
  return order;
}

}  // namespace mtpcheck

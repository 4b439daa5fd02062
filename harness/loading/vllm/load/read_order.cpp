#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "harness/checkpoint/natural_order.h"
#include "harness/loading/vllm/load/load_weights.h"

namespace mtpcheck::vllm {
namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

std::vector<std::uint32_t> read_order(const HeaderSet& headers) {
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
      files, [](std::string_view a, std::string_view b) { return natural_less(base_name(a), base_name(b)); });
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

}  // namespace mtpcheck::vllm

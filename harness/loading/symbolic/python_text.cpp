#include "harness/loading/symbolic/python_text.h"

namespace mtpcheck {

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  std::size_t at = 0;
  for (std::size_t found; (found = text.find(from, at)) != std::string_view::npos; at = found + from.size()) {
    result.append(text.substr(at, found - at)).append(to);
  }
  return result.append(text.substr(at));
}

}  // namespace mtpcheck

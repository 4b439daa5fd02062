#include "reports/html/html.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "reports/html/heat.h"
#include "reports/html/page_assets.h"
#include "reports/schema/json.h"

namespace mtpcheck::reports {
namespace {

void replace(std::string& page, std::string_view mark, std::string_view with) {
  page.replace(page.find(mark), mark.size(), with);
}

// The report as JSON inside a script element, where "</" and "<!--" would end or hide it.
std::string as_script(const nlohmann::ordered_json& json) {
  const std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

}  // namespace

std::string to_html(const Report& report) {
  nlohmann::ordered_json json = to_json(report);
  if (report.comparison) {
    for (const auto& stage : report.comparison->stages) {
      if (auto row = heat_row(stage.profile); !row.empty()) json["profiles"][stage.name] = std::move(row);
    }
  }
  std::string page(page_html());
  replace(page, "@CSS@", page_css());
  replace(page, "@JS@", std::string(acceptance_js()) + std::string(page_js()));
  replace(page, "@REPORT@", as_script(json));
  return page;
}

}  // namespace mtpcheck::reports

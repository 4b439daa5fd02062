#pragma once

#include <string_view>

/// The page's files, embedded at build time by cmake/EmbedText.cmake.
namespace mtpcheck::reports {

std::string_view page_html();
std::string_view page_css();
std::string_view page_js();
std::string_view acceptance_js();

}  // namespace mtpcheck::reports

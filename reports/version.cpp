#include "reports/version.h"

namespace mtpcheck {

std::string_view version() { return "0.1.0"; }

}  // namespace mtpcheck

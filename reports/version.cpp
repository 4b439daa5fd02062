#include "reports/version.h"

namespace mtpcheck {

std::string_view version() { return MTPCHECK_VERSION; }

}  // namespace mtpcheck

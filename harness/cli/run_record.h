#pragma once

#include <string>

#include "reports/record/report.h"

namespace mtpcheck::cli {

/// The command line of this process, quoted for a shell, and the host it runs on.
reports::RunRecord describe_run();

/// One word of a command line as a shell reads it: quoted where that is needed.
std::string shell_word(const std::string& word);

}  // namespace mtpcheck::cli

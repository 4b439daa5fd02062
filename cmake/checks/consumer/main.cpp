#include <cstdio>
#include <string>

#include "harness/checkpoint/checkpoint.h"
#include "reference/model/stages.h"
#include "reports/version.h"

// Opens a checkpoint with the installed library and counts its tensors.
int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto checkpoint = mtpcheck::open_checkpoint(argv[1]);
  mtpcheck::require_sound(checkpoint);
  const std::string version(mtpcheck::version());
  std::printf("mtpcheck %s: %zu tensors, %zu stages\n", version.c_str(), checkpoint.headers.tensors.size(), mtpcheck::kStages);
  return checkpoint.headers.tensors.empty() ? 1 : 0;
}

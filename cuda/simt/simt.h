#pragma once

/// The umbrella header of a kernel file.
///
/// A file that includes it compiles with nvcc for the device, and with the C++ compiler for a small execution layer in
/// which the threads of a block are fibers on the CPU. Everything a kernel may use is in the headers below: under nvcc
/// they are almost empty, because the language has it already. README.md says what the layer finds and what it cannot.
#include "cuda/simt/arithmetic.h"
#include "cuda/simt/atomics.h"
#include "cuda/simt/barriers.h"
#include "cuda/simt/launch.h"
#include "cuda/simt/memory.h"
#include "cuda/simt/mutant.h"
#include "cuda/simt/qualifiers.h"
#include "cuda/simt/warp.h"

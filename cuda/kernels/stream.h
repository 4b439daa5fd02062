#pragma once

/// CUDA's stream handle by its own name, so that the launchers' headers need no CUDA header.
struct CUstream_st;

namespace mtpcheck::cuda {

using Stream = CUstream_st*;

/// The half of the program that a file is compiled for (see simt/qualifiers.h); the build names it for host files.
#ifndef SIMT_BACKEND
#if defined(__CUDACC__)
#define SIMT_BACKEND device
#else
#define SIMT_BACKEND emulated
#endif
#endif

}  // namespace mtpcheck::cuda

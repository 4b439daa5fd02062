# CUDA: whether there is a compiler for the device half (MTPCHECK_CUDA_DEVICE), and where CUDA's headers are, which the
# kernels executed on the CPU need too (MTPCHECK_CUDA_INCLUDE_DIR; two of them suffice: vector_types.h, cuda_bf16.h).

set(MTPCHECK_CUDA_ARCHITECTURES "80;90a;100a" CACHE STRING "Architectures of the device half")

set(MTPCHECK_CUDA_DEVICE OFF)
if(NOT MTPCHECK_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  set(CMAKE_CUDA_ARCHITECTURES "${MTPCHECK_CUDA_ARCHITECTURES}")
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
      message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old for the device half, which needs 13.0")
    else()
      find_package(CUDAToolkit REQUIRED)
      set(MTPCHECK_CUDA_DEVICE ON)
    endif()
  endif()
  if(MTPCHECK_CUDA STREQUAL "ON" AND NOT MTPCHECK_CUDA_DEVICE)
    message(FATAL_ERROR "MTPCHECK_CUDA=ON, but there is no nvcc 13.0 or later: install the CUDA toolkit or set CUDACXX")
  endif()
  if(MTPCHECK_CUDA_DEVICE)
    # CMake before 3.26 does not know nvcc 13's C++20 and would compile C++17 without a word.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    if(NOT cuda_std_20 IN_LIST CMAKE_CUDA_COMPILE_FEATURES)
      list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    message(STATUS "CUDA device half: built for ${MTPCHECK_CUDA_ARCHITECTURES} by nvcc ${CMAKE_CUDA_COMPILER_VERSION}")
  else()
    message(STATUS "CUDA device half: left out, no nvcc 13.0 or later")
  endif()
endif()

# Without a toolkit, the headers that come with LibTorch's set-up.
file(GLOB cuda_in_deps "${PROJECT_SOURCE_DIR}/.deps/venv/lib/python3*/site-packages/nvidia/cu13")
find_path(MTPCHECK_CUDA_INCLUDE_DIR cuda_bf16.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda ${cuda_in_deps} PATH_SUFFIXES include)

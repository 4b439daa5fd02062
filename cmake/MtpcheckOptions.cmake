# What can be chosen, and what is found: language level, warnings, sanitizers, optional parts.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# An installed tool finds libraries that lie in folders of their own.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)
# -O3 is for what computes: the reference and the kernels ask for it themselves. Elsewhere it takes time to compile and
# saves none.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(MTPCHECK_TORCH AUTO CACHE STRING "LibTorch head: AUTO (where found), ON (required), OFF")
set(MTPCHECK_CUDA AUTO CACHE STRING "Device half of the CUDA head: AUTO (where nvcc is found), ON (required), OFF")
set_property(CACHE MTPCHECK_TORCH PROPERTY STRINGS AUTO ON OFF)
set_property(CACHE MTPCHECK_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MTPCHECK_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")
option(MTPCHECK_EMULATION "Kernels executed on the CPU by fibers (Boost.Context)" ON)
option(MTPCHECK_BENCHMARKS "Build the Google Benchmark programs" ON)
option(MTPCHECK_WERROR "Treat warnings as errors" ON)
# Most of the time of a small source goes into its headers: a target's sources share it. OFF, where one source is
# edited again and again.
option(MTPCHECK_UNITY "Compile the sources of a target together" ON)
set(CMAKE_UNITY_BUILD ${MTPCHECK_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 0)
# GCC's collector begins at 128 MB, where a target's sources need a gigabyte: a seventh of the time went into it.
add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1000000>)

add_library(mtpcheck_warnings INTERFACE)
# No flag in mtpcheck_warnings and mtpcheck_sanitize reaches users of the installed package.
target_compile_options(mtpcheck_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers
    -Wnon-virtual-dtor>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${MTPCHECK_WERROR}>>:-Werror>)

if(MTPCHECK_UNITY)  # a source included by another one is not a header, whatever its anonymous namespaces look like
  target_compile_options(mtpcheck_warnings INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()

add_library(mtpcheck_sanitize INTERFACE)
if(MTPCHECK_SANITIZE)
  target_compile_options(mtpcheck_sanitize INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${MTPCHECK_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  # GCC 12 takes the library's own <regex> for uninitialized there (bug 105562).
  target_compile_options(mtpcheck_sanitize INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized>)
  target_link_options(mtpcheck_sanitize INTERFACE -fsanitize=${MTPCHECK_SANITIZE})
endif()

find_package(Threads REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(HDF5 REQUIRED COMPONENTS C HL)
find_package(simdjson REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  find_package(rapidcheck REQUIRED CONFIG)
endif()
if(MTPCHECK_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

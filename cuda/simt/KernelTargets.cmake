# How kernel files get into libraries and programs.

# mtpcheck_add_emulated_kernels(TARGET file.cu ... )
# Compiles the kernel files as C++ into TARGET, an existing library or program, to be executed on the CPU. In CMake a
# file's language is the same for all targets of a folder, so each is compiled through a file that includes it.
function(mtpcheck_add_emulated_kernels target)
  foreach(kernel IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH kernel NORMALIZE OUTPUT_VARIABLE source)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE include)
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/${target}/${include}.cpp")
    file(CONFIGURE OUTPUT "${unit}" CONTENT "#include \"${include}\"\n")
    target_sources(${target} PRIVATE "${unit}")
  endforeach()
  target_link_libraries(${target} PUBLIC mtpcheck::simt PRIVATE mtpcheck_warnings mtpcheck_sanitize)
  # Kernels reinterpret memory as nvcc permits and unroll with a pragma of nvcc's; reports show the repository's paths.
  target_compile_options(${target} PRIVATE -fno-strict-aliasing -ffp-contract=off -Wno-unknown-pragmas
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}/=)
endfunction()

# mtpcheck_add_checked_kernels(TARGET file.cu ...)
# The same, and the compiler calls checking/hooks.cpp before every memory access; bugs can be planted (mutant.h). -g1 is
# for lines in reports. Everything else in TARGET must be of the checked backend too.
function(mtpcheck_add_checked_kernels target)
  mtpcheck_add_emulated_kernels(${target} ${ARGN})
  target_compile_definitions(${target} PRIVATE SIMT_CHECKED SIMT_MUTANTS PUBLIC SIMT_BACKEND=checked)
  target_compile_options(${target} PRIVATE -fsanitize=thread -g1 -fno-optimize-sibling-calls)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE --param=tsan-instrument-func-entry-exit=0)
  endif()
endfunction()

# mtpcheck_add_device_kernels(TARGET file.cu ...)
# Compiles the kernel files for the device. What ptxas says of registers, shared memory and spills is kept beside each
# object file (OBJECT.ptxas), for resources.py.
function(mtpcheck_add_device_kernels target)
  target_sources(${target} PRIVATE ${ARGN})
  target_link_libraries(${target} PUBLIC mtpcheck::simt_device)
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${MTPCHECK_CUDA_ARCHITECTURES}")
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xptxas -v -t2 --expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra,-Wno-unknown-pragmas>)
  set_target_properties(${target} PROPERTIES
    RULE_LAUNCH_COMPILE "\"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/cuda/keep_ptxas_report.py\" <OBJECT>")
endfunction()

# Format and lint as tests. clang-tidy takes minutes and is asked for: .ci/run does.
option(MTPCHECK_TIDY "Run clang-tidy over the sources as a test" OFF)

find_program(MTPCHECK_CLANG_FORMAT clang-format)
if(MTPCHECK_CLANG_FORMAT)
  add_test(NAME clang_format COMMAND ${PROJECT_SOURCE_DIR}/scripts/check_format.sh)
endif()
if(MTPCHECK_TIDY)
  add_test(NAME clang_tidy COMMAND ${PROJECT_SOURCE_DIR}/scripts/tidy.sh --ci ${CMAKE_BINARY_DIR})
  set_tests_properties(clang_tidy PROPERTIES TIMEOUT 1800 PROCESSORS 2)
endif()

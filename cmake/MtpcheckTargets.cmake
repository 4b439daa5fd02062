# The four ways in which this project makes targets. Everything else in the folders' CMakeLists is a list of files.

# mtpcheck_add_library(NAME SOURCES ... [PUBLIC libs] [PRIVATE libs])
# A static library mtpcheck_NAME with the alias mtpcheck::NAME; headers are included from the repository's root.
function(mtpcheck_add_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(mtpcheck_${name} STATIC ${ARG_SOURCES})
  add_library(mtpcheck::${name} ALIAS mtpcheck_${name})
  set_target_properties(mtpcheck_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(mtpcheck_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/mtpcheck>)
  target_compile_features(mtpcheck_${name} PUBLIC cxx_std_20)
  target_link_libraries(mtpcheck_${name}
    PUBLIC ${ARG_PUBLIC}
    PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:mtpcheck_warnings> $<BUILD_INTERFACE:mtpcheck_sanitize>)
endfunction()

# mtpcheck_add_test(NAME SOURCES ... LIBS ...)
# A GoogleTest program, each TEST of it a CTest test. MTPCHECK_GOLDEN_DIR is the path of golden/.
function(mtpcheck_add_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main
    mtpcheck_warnings mtpcheck_sanitize)
  # What is tested is optimised; a test itself runs once, and is compiled more often than that.
  target_compile_options(${name} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-O1>)
  target_compile_definitions(${name} PRIVATE MTPCHECK_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/golden")
  add_test(NAME ${name} COMMAND ${name})
endfunction()

# mtpcheck_add_property_test(NAME SOURCES ... LIBS ...): the same with RapidCheck.
function(mtpcheck_add_property_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  mtpcheck_add_test(${name} SOURCES ${ARG_SOURCES} LIBS ${ARG_LIBS} rapidcheck rapidcheck_gtest)
endfunction()

# mtpcheck_add_benchmark(NAME SOURCES ... LIBS ...): a Google Benchmark program, built but never run by the tests.
function(mtpcheck_add_benchmark name)
  if(NOT MTPCHECK_BENCHMARKS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} benchmark::benchmark benchmark::benchmark_main
    mtpcheck_warnings mtpcheck_sanitize)
  target_compile_definitions(${name} PRIVATE MTPCHECK_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/golden")
endfunction()

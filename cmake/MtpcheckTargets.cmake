# The ways in which this project makes targets. Everything else in the folders' CMakeLists is a list of files.

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

# mtpcheck_compile_apart(TARGET FOLDER ...)
# With MTPCHECK_UNITY: the sources below each folder together, and all others together, so that the parts of a large
# target are compiled at once. Called where the target is made, after its last source.
function(mtpcheck_compile_apart target)
  get_target_property(sources ${target} SOURCES)
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  foreach(source IN LISTS sources)
    set(group rest)
    foreach(folder IN LISTS ARGN)
      string(FIND "${source}" "${CMAKE_CURRENT_SOURCE_DIR}/${folder}/" at)
      if(at EQUAL 0)
        set(group ${folder})
      endif()
    endforeach()
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# mtpcheck_compile_quickly(TARGET)
# For what runs once and is compiled more often than that: with -Og it takes half the time.
function(mtpcheck_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release>>:-Og>)
endfunction()

# mtpcheck_add_test_program(NAME [LIBS ...])
# A GoogleTest program. Its tests come from mtpcheck_add_test. MTPCHECK_GOLDEN_DIR is the path of golden/.
function(mtpcheck_add_test_program name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  if(NOT TARGET mtpcheck_test_main)  # a library, so that a program may have a main function of its own
    add_library(mtpcheck_test_main STATIC "${PROJECT_SOURCE_DIR}/cmake/testing/main.cpp")
    target_link_libraries(mtpcheck_test_main PUBLIC GTest::gtest GTest::gmock PRIVATE mtpcheck_warnings mtpcheck_sanitize)
  endif()
  add_executable(${name})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} mtpcheck_test_main mtpcheck_warnings mtpcheck_sanitize)
  mtpcheck_compile_quickly(${name})  # what is tested is optimised
  target_compile_definitions(${name} PRIVATE MTPCHECK_GOLDEN_DIR="${PROJECT_SOURCE_DIR}/golden")
endfunction()

# mtpcheck_add_test(NAME [IN PROGRAM] SOURCES ... [LIBS ...])
# The tests of some files as one CTest test. They are compiled into PROGRAM, which many share, or into one of their own.
function(mtpcheck_add_test name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "" "IN" "SOURCES;LIBS" ${ARGN})
  if(NOT ARG_IN)
    mtpcheck_add_test_program(${name})
    target_sources(${name} PRIVATE ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE ${ARG_LIBS})
    add_test(NAME ${name} COMMAND ${name})
    return()
  endif()
  set(files "")
  foreach(source IN LISTS ARG_SOURCES)
    cmake_path(ABSOLUTE_PATH source NORMALIZE)
    target_sources(${ARG_IN} PRIVATE "${source}")
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    list(APPEND files "${source}")
  endforeach()
  target_link_libraries(${ARG_IN} PRIVATE ${ARG_LIBS})
  add_test(NAME ${name} COMMAND ${ARG_IN} ${files})
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

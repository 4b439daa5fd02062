# mtpcheck_add_gate(NAME BASELINE FILE COMMAND VERB ARGUMENT ... [WORKING_DIRECTORY DIR])
#
# Two CTest tests: NAME.report runs `mtpcheck VERB ARGUMENT ... --report NAME.h5`, and NAME holds that report to the
# baseline with `mtpcheck gate`. JUnit XML lies beside the report, in the build folder.
#
#   find_package(mtpcheck REQUIRED)
#   enable_testing()
#   mtpcheck_add_gate(draft_head BASELINE ${CMAKE_SOURCE_DIR}/draft_head.gate
#     COMMAND compare /models/my-head --inputs trace.safetensors --candidate dump:engine.safetensors)
#
# The first baseline is written by `mtpcheck gate REPORT --baseline FILE --update --reason WHY`, and reviewed.
function(mtpcheck_add_gate name)
  cmake_parse_arguments(ARG "" "BASELINE;WORKING_DIRECTORY" "COMMAND" ${ARGN})
  if(NOT ARG_BASELINE OR NOT ARG_COMMAND)
    message(FATAL_ERROR "mtpcheck_add_gate(${name}): BASELINE and COMMAND are needed")
  endif()
  if(TARGET mtpcheck_cli)
    set(tool "$<TARGET_FILE:mtpcheck_cli>")
  else()
    find_program(MTPCHECK_TOOL mtpcheck HINTS "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../bin" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../../../../bin" REQUIRED)
    set(tool "${MTPCHECK_TOOL}")
  endif()
  if(NOT ARG_WORKING_DIRECTORY)
    set(ARG_WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()
  set(report "${CMAKE_CURRENT_BINARY_DIR}/${name}.h5")
  add_test(NAME ${name}.report COMMAND "${tool}" ${ARG_COMMAND} --report "${report}"
    WORKING_DIRECTORY "${ARG_WORKING_DIRECTORY}")
  add_test(NAME ${name} COMMAND "${tool}" gate "${report}" --baseline "${ARG_BASELINE}"
    --junit "${CMAKE_CURRENT_BINARY_DIR}/${name}.xml" WORKING_DIRECTORY "${ARG_WORKING_DIRECTORY}")
  set_tests_properties(${name}.report PROPERTIES FIXTURES_SETUP ${name})
  set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED ${name})
endfunction()

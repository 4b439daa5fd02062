# Checks of the project itself, as tests.
if(NOT BUILD_TESTING)
  return()
endif()
find_package(Python3 REQUIRED COMPONENTS Interpreter)

add_test(NAME layers COMMAND Python3::Interpreter "${PROJECT_SOURCE_DIR}/cmake/checks/layers.py" "${PROJECT_SOURCE_DIR}")
if(NOT MTPCHECK_SANITIZE)
  add_test(NAME install COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR} -DSOURCE=${PROJECT_SOURCE_DIR}
    -DWORK=${PROJECT_BINARY_DIR}/install-check -P "${PROJECT_SOURCE_DIR}/cmake/checks/install.cmake")
endif()

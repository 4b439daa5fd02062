# cmake -DBUILD=… -DSOURCE=… -DWORK=… -P install.cmake
# Installs the build into WORK and builds and runs a project that uses find_package(mtpcheck).
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${ARGN}\n${output}")
  endif()
endfunction()

file(REMOVE_RECURSE "${WORK}")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${WORK}/prefix")
run(${CMAKE_COMMAND} -G Ninja -S "${SOURCE}/cmake/checks/consumer" -B "${WORK}/build" -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build "${WORK}/build")
run("${WORK}/build/consumer" "${SOURCE}/golden/tiny-hy4/checkpoint-split")
run("${WORK}/prefix/bin/mtpcheck" --version)

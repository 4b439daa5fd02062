# `cmake --install` and `find_package(mtpcheck)`.
include(CMakePackageConfigHelpers)

install(TARGETS mtpcheck_reference mtpcheck_reports mtpcheck_harness EXPORT mtpcheckTargets)
install(TARGETS mtpcheck_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(folder reference harness reports)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/mtpcheck
    FILES_MATCHING PATTERN "*.h")
endforeach()
install(EXPORT mtpcheckTargets NAMESPACE mtpcheck:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mtpcheck)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/mtpcheckConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/mtpcheckConfig.cmake INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mtpcheck)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/mtpcheckConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/mtpcheckConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/mtpcheckConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/MtpcheckGate.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mtpcheck)

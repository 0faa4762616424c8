# `make install`: program, library, the public headers and a CMake package, so that find_package(poem) gives poem::poem.
include(CMakePackageConfigHelpers)
install(TARGETS poem_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS poem_library poem_torch poem_dependencies EXPORT poemTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/poem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/poem/configs)
install(EXPORT poemTargets NAMESPACE poem:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/poem)
configure_package_config_file(cmake/poemConfig.cmake.in poemConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/poem)
write_basic_package_version_file(poemConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/poemConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/poemConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/poem)

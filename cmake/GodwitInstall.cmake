# What `cmake --install` places, so that find_package(godwit) gives godwit::protocols ... godwit::actors, its components.
include(CMakePackageConfigHelpers)
set(godwit_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/godwit)
install(TARGETS godwit_protocols godwit_policy_plugin godwit_runtime godwit_transport godwit_gpu godwit_actors EXPORT godwit
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET godwit)
  install(TARGETS godwit RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
foreach(folder protocols runtime transport gpu actors)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} OPTIONAL)
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT godwit NAMESPACE godwit:: FILE godwitTargets.cmake DESTINATION ${godwit_package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/godwitConfig.cmake.in ${PROJECT_BINARY_DIR}/godwitConfig.cmake
                              INSTALL_DESTINATION ${godwit_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/godwitConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/godwitConfig.cmake ${PROJECT_BINARY_DIR}/godwitConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindCAF.cmake DESTINATION ${godwit_package_dir})

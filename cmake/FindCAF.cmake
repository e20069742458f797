# Finds the C++ Actor Framework 0.17, whose Debian package ships neither a CMake configuration nor a .pc file.
# Also installed with godwit, since godwit's exported targets name caf::core and caf::io.
find_path(CAF_INCLUDE_DIR NAMES caf/all.hpp)
if(CAF_INCLUDE_DIR AND EXISTS "${CAF_INCLUDE_DIR}/caf/config.hpp")
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" caf_version_line REGEX "#define CAF_VERSION [0-9]+")
  if(caf_version_line MATCHES "CAF_VERSION ([0-9]+)")
    set(caf_version_number ${CMAKE_MATCH_1})
    math(EXPR caf_major "${caf_version_number} / 10000")
    math(EXPR caf_minor "(${caf_version_number} / 100) % 100")
    math(EXPR caf_patch "${caf_version_number} % 100")
    set(CAF_VERSION "${caf_major}.${caf_minor}.${caf_patch}")
  endif()
endif()
foreach(component core io openssl)
  find_library(CAF_${component}_LIBRARY NAMES caf_${component})
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF
  REQUIRED_VARS CAF_core_LIBRARY CAF_io_LIBRARY CAF_INCLUDE_DIR
  VERSION_VAR CAF_VERSION
  HANDLE_VERSION_RANGE)
if(CAF_FOUND)
  find_package(Threads REQUIRED)
  foreach(component core io openssl)
    if(CAF_${component}_LIBRARY AND NOT TARGET caf::${component})
      add_library(caf::${component} UNKNOWN IMPORTED)
      set_target_properties(caf::${component} PROPERTIES
        IMPORTED_LOCATION "${CAF_${component}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES Threads::Threads)
    endif()
  endforeach()
  foreach(component io openssl)
    if(TARGET caf::${component})
      target_link_libraries(caf::${component} INTERFACE caf::core)
    endif()
  endforeach()
endif()
mark_as_advanced(CAF_INCLUDE_DIR CAF_core_LIBRARY CAF_io_LIBRARY CAF_openssl_LIBRARY)

# cmake -D build=.. -D source=.. -D work=.. -D compiler=.. -D generator=.. [-D launcher=..] -P install_and_build.cmake
cmake_minimum_required(VERSION 3.25)

function(step what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed:\n${output}")
  endif()
  message(STATUS "${what}: done")
endfunction()

file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work})
step("installing" ${CMAKE_COMMAND} --install ${build} --prefix ${work}/prefix)

# What is installed must not name the tree it was built from: it would work here and nowhere else.
file(GLOB_RECURSE package_files ${work}/prefix/*.cmake)
if(NOT package_files)
  message(FATAL_ERROR "no CMake package was installed")
endif()
foreach(package_file ${package_files})
  file(READ ${package_file} text)
  foreach(path ${build} ${source})
    # Whole: a tree that is called /godwit is not named by .../lib/cmake/godwit.
    string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" literal "${path}")
    string(REGEX MATCH "(^|-[IL]|[^A-Za-z0-9_.}-])${literal}([^A-Za-z0-9_.-]|$)" named "${text}")
    if(named)
      message(FATAL_ERROR "${package_file} names ${path}")
    endif()
  endforeach()
endforeach()

# A copy, so that no header of the source tree is near.
file(COPY ${source}/examples DESTINATION ${work})
set(arguments -G ${generator} -D CMAKE_PREFIX_PATH=${work}/prefix -D CMAKE_CXX_COMPILER=${compiler} -D CMAKE_BUILD_TYPE=Debug
    -D CMAKE_CXX_FLAGS_DEBUG=) # they are to run, not to be fast
if(launcher)
  list(APPEND arguments -D CMAKE_CXX_COMPILER_LAUNCHER=${launcher})
endif()
step("configuring a project with modules of its own" ${CMAKE_COMMAND} -S ${source}/tests/package/found -B ${work}/found
     ${arguments})
step("configuring a project that has godwit as a folder" ${CMAKE_COMMAND} -S ${source}/tests/package/added
     -B ${work}/added -D godwit_folder=${source} ${arguments})
step("configuring the examples" ${CMAKE_COMMAND} -S ${work}/examples -B ${work}/build ${arguments})
step("building the examples" ${CMAKE_COMMAND} --build ${work}/build --parallel 2)
if(EXISTS ${work}/prefix/bin/godwit)
  file(STRINGS ${work}/build/CTestTestfile.cmake of_plugin REGEX policy_plugin)
  if(NOT of_plugin)
    message(FATAL_ERROR "the example of policies does not find the command that loads it")
  endif()
endif()
step("running the examples" ${CMAKE_CTEST_COMMAND} --test-dir ${work}/build --output-on-failure)

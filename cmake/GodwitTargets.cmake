# What every folder's target shares: flags, public include folder, export name, test executables.

function(godwit_toolchain)
  find_program(GODWIT_CCACHE ccache)
  if(GODWIT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${GODWIT_CCACHE} PARENT_SCOPE)
    set(CMAKE_C_COMPILER_LAUNCHER ${GODWIT_CCACHE} PARENT_SCOPE)
  endif()
  find_program(GODWIT_MOLD mold)
  if(GODWIT_MOLD)
    add_link_options(-fuse-ld=mold)
  endif()
  # nvcc takes such options for its host compiler only.
  add_compile_options(
    "$<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wnon-virtual-dtor;-fno-omit-frame-pointer>")
  if(GODWIT_SANITIZE)
    add_compile_options(-fsanitize=${GODWIT_SANITIZE} -fno-sanitize-recover=all)
    add_link_options(-fsanitize=${GODWIT_SANITIZE})
    # g++ 12 warns of its own <regex> and optional when it instruments them.
    if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
      add_compile_options(-Wno-maybe-uninitialized)
    endif()
    # CAF 0.17's headers trip UBSan's null check for actors without arguments.
    if(GODWIT_SANITIZE MATCHES undefined)
      add_compile_options(-fno-sanitize=null)
    endif()
  endif()
endfunction()

# godwit_library(NAME [PUBLIC libs...] [PRIVATE libs...] [EXCLUDE folder])
# Builds godwit_NAME (alias godwit::NAME) from every .cpp below the folder except main/ and EXCLUDE;
# public headers lie in include/godwit/NAME.
function(godwit_library name)
  cmake_parse_arguments(ARG "" "EXCLUDE" "PUBLIC;PRIVATE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/${name}/main/")
  if(ARG_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "/${name}/${ARG_EXCLUDE}/")
  endif()
  set(target godwit_${name})
  if(sources)
    add_library(${target} STATIC ${sources})
    godwit_compile_together(${target})
    set(scope PUBLIC)
    target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_PUBLIC})
  endif()
  add_library(godwit::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope}
    $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endfunction()

# godwit_interface_of(OUT files...): a short text that is another one where one of these headers is, or one of godwit's
# that they include, however far. For two files of which one loads the other.
function(godwit_interface_of out)
  set(open ${ARGN})
  set(seen "")
  set(text "")
  while(open)
    list(POP_FRONT open header)
    if(header IN_LIST seen)
      continue()
    endif()
    list(APPEND seen ${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
    file(SHA256 ${header} sum)
    string(APPEND text ${sum})
    file(STRINGS ${header} lines REGEX "^#include <godwit/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include <(godwit/([a-z]+)[^>]*)>.*" "\\2/include/\\1" included "${line}")
      list(APPEND open ${PROJECT_SOURCE_DIR}/${included})
    endforeach()
  endwhile()
  string(SHA256 text "${text}")
  string(SUBSTRING ${text} 0 12 text)
  set(${out} ${text} PARENT_SCOPE)
endfunction()

# godwit_compile_together(TARGET [AT_ONCE number])
# Several files in one go, for what they include takes half of the compiler's time.
function(godwit_compile_together target)
  cmake_parse_arguments(ARG "" "AT_ONCE" "" ${ARGN})
  if(GODWIT_UNITY)
    if(NOT ARG_AT_ONCE)
      set(ARG_AT_ONCE 10)
    endif()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ARG_AT_ONCE})
    # g++ 12 takes a coroutine's frame for a type of a header where its file is included. And what a local name hides may
    # be of another file; the presets that compile each by itself warn of the rest.
    target_compile_options(${target} PRIVATE -Wno-shadow $<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>
                           $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# godwit_compile_as_one(TARGET NAME FILES files...): these files of the target in one go, and no others with them.
function(godwit_compile_as_one target name)
  cmake_parse_arguments(ARG "" "" "FILES" ${ARGN})
  set(text "")
  foreach(file IN LISTS ARG_FILES)
    string(APPEND text "#include \"${file}\"\n")
  endforeach()
  set(together ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${together} CONTENT "${text}" @ONLY)
  target_sources(${target} PRIVATE ${together})
  set_source_files_properties(${ARG_FILES} TARGET_DIRECTORY ${target} PROPERTIES HEADER_FILE_ONLY ON)
  set_source_files_properties(${together} TARGET_DIRECTORY ${target}
                              PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON OBJECT_DEPENDS "${ARG_FILES}")
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()

# Of tests, which compute little by themselves: a compiler that may try less takes a fifth less time.
function(godwit_compile_quickly target)
  if(TARGET ${target} AND NOT GODWIT_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL RelWithDebInfo)
    target_compile_options(${target} PRIVATE -O1 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>) # of g++ 12's own optional
  endif()
endfunction()

# godwit_test(NAME SOURCES files... LIBS libs... [PREFIX text] [ALONE text]): one GoogleTest executable, its cases
# found by CTest.
# PREFIX: of the cases' names, for those that another executable has, too.
# ALONE: a pattern of the files that cannot be compiled together with others.
function(godwit_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PREFIX;ALONE" "SOURCES;LIBS;LABELS" ${ARGN})
  if(NOT ARG_SOURCES)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 1200) # a stuck one ends; machines may be slow
  endif()
  set(environment "")
  if(GODWIT_SANITIZE)
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 4")
    set(environment ENVIRONMENT "LSAN_OPTIONS=suppressions='${PROJECT_SOURCE_DIR}/tests/lsan.supp':print_suppressions=0")
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  godwit_compile_together(${name} AT_ONCE 8) # more want more memory than a compiler has
  if(ARG_ALONE)
    set(alone ${ARG_SOURCES})
    list(FILTER alone INCLUDE REGEX "${ARG_ALONE}")
    set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  if("unit" IN_LIST ARG_LABELS AND TARGET unit_tests)
    add_dependencies(unit_tests ${name})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE GODWIT_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GODWIT_BINARY_DIR="${PROJECT_BINARY_DIR}")
  # values as text may hold addresses, which change from run to run: the names of the parameters are enough
  gtest_discover_tests(${name} NO_PRETTY_VALUES TEST_PREFIX "${ARG_PREFIX}" DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}" ${environment})
endfunction()

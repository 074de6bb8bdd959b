# How Cirrus names and builds its own targets: one static library a folder of src/, one test program a folder of tests/.
# cirrus_library(fits DEPENDS base CFITSIO::CFITSIO [TORCH]) makes target cirrus_fits from the *.cpp of the calling folder.

find_program(CCACHE ccache)
if(CCACHE)
  # PCH and ccache agree only with these (see ccache's manual, "Precompiled headers").
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

add_library(cirrus_warnings INTERFACE)
target_compile_options(cirrus_warnings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Werror)
add_library(cirrus_sanitize INTERFACE)
if(CIRRUS_SANITIZE)
  # GCC 12 reports uninitialised values inside <regex> when it instruments it.
  target_compile_options(cirrus_sanitize INTERFACE -fsanitize=${CIRRUS_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer
                         -Wno-maybe-uninitialized)
  target_link_options(cirrus_sanitize INTERFACE -fsanitize=${CIRRUS_SANITIZE})
endif()

# ATen is precompiled once (building it in every unit costs 6 s, from the PCH 1.3 s); torch/torch.h stays in few units.
function(cirrus_use_torch target)
  target_link_libraries(${target} PUBLIC LibTorch::cpu)
  if(TARGET cirrus_pch)
    # One PCH serves libraries and programs only if both are compiled alike: -fPIC, not CMake's -fPIE for programs.
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fpch-preprocess -fPIC)
    target_precompile_headers(${target} REUSE_FROM cirrus_pch)
  endif()
endfunction()

function(cirrus_library name)
  cmake_parse_arguments(ARG "TORCH" "" "DEPENDS;SOURCES" ${ARGN})
  if(NOT ARG_SOURCES)
    file(GLOB ARG_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  if(NOT ARG_SOURCES)
    set(ARG_SOURCES ${CMAKE_SOURCE_DIR}/cmake/pch.cpp)
  endif()
  add_library(cirrus_${name} STATIC ${ARG_SOURCES})
  target_include_directories(cirrus_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
  target_link_libraries(cirrus_${name} PRIVATE cirrus_warnings PUBLIC cirrus_sanitize ${ARG_DEPENDS})
  if(ARG_TORCH)
    cirrus_use_torch(cirrus_${name})
  endif()
endfunction()

# cirrus_test(fits DEPENDS cirrus_fits [TORCH] [LABELS unit]): every *_test.cpp of the calling folder in one program test_fits,
# one CTest entry a test suite (BOOST_AUTO_TEST_SUITE), so that failures are named.
function(cirrus_test name)
  cmake_parse_arguments(ARG "TORCH" "" "DEPENDS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(test_${name} ${sources} ${CMAKE_SOURCE_DIR}/tests/main.cpp)
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(test_${name} PRIVATE cirrus_warnings cirrus_sanitize ${ARG_DEPENDS} Boost::unit_test_framework)
  target_compile_definitions(test_${name} PRIVATE BOOST_TEST_DYN_LINK)
  if(ARG_TORCH)
    cirrus_use_torch(test_${name})
  endif()
  foreach(source ${sources})
    file(STRINGS ${source} suites REGEX "^BOOST_AUTO_TEST_SUITE\\(")
    foreach(line ${suites})
      string(REGEX REPLACE "^BOOST_AUTO_TEST_SUITE\\( *([A-Za-z0-9_]+).*" "\\1" suite "${line}")
      add_test(NAME ${name}.${suite} COMMAND test_${name} --run_test=${suite} --log_level=message WORKING_DIRECTORY ${CMAKE_BINARY_DIR})
      set(labels ${ARG_LABELS})
      if(suite MATCHES "^slow_")
        list(APPEND labels slow)
      endif()
      set_tests_properties(${name}.${suite} PROPERTIES LABELS "${labels}" TIMEOUT 2400
        ENVIRONMENT "CIRRUS_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY};CIRRUS_SOURCE=${CMAKE_SOURCE_DIR}")
    endforeach()
  endforeach()
endfunction()

# The four kinds of target. Sources are listed by hand in each folder's CMakeLists.txt;
# tests/style/check.py fails when a *_test.cc or *_fuzzer.cc belongs to no target.

# Asio, Boost.JSON and the standard headers cost seconds a file, GoogleTest two more: compiled once, reused by
# every target that links space_net and has the same flags (not by the guest daemon, which is kept small).
function(space_use_pch target)
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL "EXECUTABLE")
    set(pch space_test_pch)
    set(test_headers <gmock/gmock.h> <gtest/gtest.h>)
    set(test_libraries GTest::gtest GTest::gmock)
  else()
    set(pch space_pch)
  endif()
  if(NOT TARGET ${pch})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${pch}.cc CONTENT "")
    add_library(${pch} OBJECT EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/${pch}.cc)
    target_compile_definitions(${pch} PRIVATE BOOST_ASIO_SEPARATE_COMPILATION)
    target_link_libraries(${pch} PRIVATE ${test_libraries})
    target_precompile_headers(${pch} PRIVATE
      <algorithm> <chrono> <functional> <map> <memory> <optional> <span> <string> <string_view> <vector>
      <boost/asio/awaitable.hpp> <boost/asio/co_spawn.hpp> <boost/asio/io_context.hpp> <boost/asio/steady_timer.hpp>
      <boost/asio/as_tuple.hpp> <boost/asio/use_awaitable.hpp> <boost/asio/posix/stream_descriptor.hpp>
      <boost/json/array.hpp> <boost/json/object.hpp> <boost/json/value.hpp> <fmt/core.h> <expected> ${test_headers})
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  # The header is compiled with -fPIC and reused only with the same flag; executables would get -fPIE.
  if(kind STREQUAL "EXECUTABLE")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
endfunction()

# space_library(NAME SOURCES a.cc ... DEPS other_lib ...)  ->  static library space_NAME
function(space_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(space_${name} STATIC ${ARG_SOURCES})
  target_include_directories(space_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(space_${name} PUBLIC ${ARG_DEPS} Threads::Threads)
  set_target_properties(space_${name} PROPERTIES EXCLUDE_FROM_ALL ${SPACE_FUZZ})
endfunction()

# space_process(space-NAME SOURCES ... DEPS ...)  ->  executable of that name
function(space_process name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} EXCLUDE_FROM_ALL ${SPACE_FUZZ})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    add_custom_command(TARGET ${name} POST_BUILD COMMAND strip $<TARGET_FILE:${name}>)
  endif()
endfunction()

# space_test(NAME SOURCES ... DEPS ...)  ->  one GoogleTest binary per folder, one CTest entry per binary
set(SPACE_FUZZ_TESTS base core egress net vmm guest control noded netd)  # what the fuzz preset builds of them: the parsers' folders
function(space_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(SPACE_FUZZ AND NOT name IN_LIST SPACE_FUZZ_TESTS)
    set_target_properties(${name}_test PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endfunction()

# space_fuzzer(NAME SOURCES ... DEPS ...)  ->  libFuzzer binary (preset fuzz). Its committed corpus is
# tests/fuzz/corpus/NAME/. Without the preset nothing is built.
function(space_fuzzer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  if(NOT SPACE_FUZZ)
    return()
  endif()
  add_executable(${name}_fuzzer ${ARG_SOURCES})
  target_link_libraries(${name}_fuzzer PRIVATE ${ARG_DEPS})
  target_link_options(${name}_fuzzer PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name}_fuzzer PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
endfunction()

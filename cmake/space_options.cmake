# Compiler, warnings, hardening, sanitizers: one place, so that no target decides for itself.
set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_FLAGS_DEV "-O1 -g1")
set(CMAKE_C_FLAGS_DEV "-O1 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)

set(SPACE_SANITIZER "" CACHE STRING "Value for -fsanitize=, e.g. address,undefined or thread")
option(SPACE_FUZZ "Build the libFuzzer targets" OFF)

if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
  message(WARNING "SPACE is built with clang-19; ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION} is not tested.")
endif()

add_compile_options(-Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  -Wno-missing-field-initializers -Wno-gnu-statement-expression -Wthread-safety)
add_compile_options("$<$<COMPILE_LANGUAGE:C>:-Wno-old-style-cast>")
add_compile_options(-fno-omit-frame-pointer -ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)

if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -fcf-protection
    -D_FORTIFY_SOURCE=2 -D_GLIBCXX_ASSERTIONS -ftrivial-auto-var-init=zero)
  add_link_options(-Wl,-z,relro,-z,now -Wl,-z,noexecstack)
endif()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(SPACE_SANITIZER)
  add_compile_options(-fsanitize=${SPACE_SANITIZER} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${SPACE_SANITIZER})
endif()
if(SPACE_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link -g0)  # function names are enough, and it builds in half the time
endif()

find_program(SPACE_CCACHE ccache)
if(SPACE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${SPACE_CCACHE})
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
endif()
find_program(SPACE_MOLD mold)
if(SPACE_MOLD)
  add_link_options(-fuse-ld=mold)
else()
  add_link_options(-fuse-ld=lld)
endif()

# Boost.Asio: only what we use, so that its headers stay cheap. Boost 1.81 does not know that
# libstdc++ 12 has no std::aligned_alloc trouble with clang; nothing else needs a define.
add_compile_definitions(BOOST_ASIO_NO_DEPRECATED BOOST_ASIO_DISABLE_BOOST_BIND
  BOOST_BEAST_USE_STD_STRING_VIEW BOOST_ALLOW_DEPRECATED_HEADERS)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)

// What the code assumes of the machine and the compiler. Included by result.h, so by everything.
#pragma once

#if !defined(__x86_64__) || !defined(__linux__)
#error "SPACE runs on x86-64 Linux."
#endif
// g++ 12 miscompiles coroutines: aggregates and lambdas built inside a co_await expression are freed twice.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#error "g++ before 13 miscompiles coroutines. Build with clang-19: cmake --preset release"
#endif

// Result<T>: a value or an Error. The only way a function of ours reports failure.
//
// Functions do not throw; a library that does is caught in its adapter. Programming errors abort.
// A caller adds context on the way up with `wrap`, so that the message reads from the outside in:
// "create sandbox i3k…: open template 7f…: No such file or directory".
#pragma once

#include <fmt/core.h>

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "base/platform.h"

namespace space {

// The nine kinds of failure. A caller can do something different for each; finer causes go into the text.
enum class Code : unsigned char {
  invalid_argument,   // the caller's input is wrong; repeating it will not help
  unauthenticated,    // no or unknown credentials
  permission_denied,  // known, but may not
  not_found,          // no such thing
  conflict,           // it exists already, or is in a state that does not allow this
  exhausted,          // a limit or a full disk; later or elsewhere it may work
  unavailable,        // the other side is not there (connection refused, gone); may be repeated
  deadline,           // out of time
  internal,           // a fault of ours or of the system
};

std::string_view to_string(Code code);

struct Error {
  Code code = Code::internal;
  std::string message;  // one sentence, no trailing full stop, no secret, no host path in what a client sees
};

template <class T>
using Result = std::expected<T, Error>;

// return fail(Code::not_found, "sandbox {} does not exist", id);
template <class... Args>
[[nodiscard]] std::unexpected<Error> fail(Code code, fmt::format_string<Args...> format, Args&&... args) {
  return std::unexpected(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// Failure of a system call: text of `error_number` appended, code chosen from it (ENOENT -> not_found, …).
[[nodiscard]] std::unexpected<Error> fail_errno(int error_number, std::string_view what);

// The same error with "context: " in front.
[[nodiscard]] std::unexpected<Error> wrap(Error error, std::string_view context);

}  // namespace space

#define SPACE_CONCAT_INNER(a, b) a##b
#define SPACE_CONCAT(a, b) SPACE_CONCAT_INNER(a, b)

// SPACE_TRY(auto fd, open_disk(id));   declares fd or returns the error.
#define SPACE_TRY(lhs, ...) SPACE_TRY_IMPL(SPACE_CONCAT(space_try_, __LINE__), return, lhs, __VA_ARGS__)
// SPACE_CHECK(write_all(fd, bytes));   for Result<void>.
#define SPACE_CHECK(...) SPACE_CHECK_IMPL(return, __VA_ARGS__)
// The same two inside a coroutine.
#define SPACE_CO_TRY(lhs, ...) SPACE_TRY_IMPL(SPACE_CONCAT(space_try_, __LINE__), co_return, lhs, __VA_ARGS__)
#define SPACE_CO_CHECK(...) SPACE_CHECK_IMPL(co_return, __VA_ARGS__)

#define SPACE_TRY_IMPL(temporary, exit, lhs, ...)                     \
  auto temporary = (__VA_ARGS__);                                     \
  if (!temporary) exit std::unexpected(std::move(temporary).error()); \
  lhs = *std::move(temporary)
#define SPACE_CHECK_IMPL(exit, ...)                          \
  do {                                                       \
    if (auto space_check_ = (__VA_ARGS__); !space_check_)    \
      exit std::unexpected(std::move(space_check_).error()); \
  } while (false)

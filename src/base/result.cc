#include "base/result.h"

#include <cerrno>
#include <cstring>

namespace space {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::unauthenticated:
      return "unauthenticated";
    case Code::permission_denied:
      return "permission_denied";
    case Code::not_found:
      return "not_found";
    case Code::conflict:
      return "conflict";
    case Code::exhausted:
      return "exhausted";
    case Code::unavailable:
      return "unavailable";
    case Code::deadline:
      return "deadline";
    case Code::internal:
      return "internal";
  }
  return "internal";
}

namespace {

Code code_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ESRCH:
      return Code::not_found;
    case EEXIST:
    case EBUSY:
    case ENOTEMPTY:
      return Code::conflict;
    case EACCES:
    case EPERM:
      return Code::permission_denied;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return Code::exhausted;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
      return Code::unavailable;
    case ETIMEDOUT:
      return Code::deadline;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
      return Code::invalid_argument;
    default:
      return Code::internal;
  }
}

}  // namespace

std::unexpected<Error> fail_errno(int error_number, std::string_view what) {
  char buffer[128];
  const char* text = strerror_r(error_number, buffer, sizeof buffer);  // GNU form: returns the text
  return std::unexpected(Error{code_of_errno(error_number), fmt::format("{}: {}", what, text)});
}

std::unexpected<Error> wrap(Error error, std::string_view context) {
  error.message = fmt::format("{}: {}", context, error.message);
  return std::unexpected(std::move(error));
}

}  // namespace space

#include "control/api_error.h"

#include "base/json.h"

namespace space::control {

int http_status(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return 400;
    case Code::unauthenticated:
      return 401;
    case Code::permission_denied:
      return 403;
    case Code::not_found:
      return 404;
    case Code::conflict:
      return 409;
    case Code::exhausted:
      return 429;
    case Code::unavailable:
      return 503;
    case Code::deadline:
      return 504;
    case Code::internal:
      return 500;
  }
  return 500;
}

ApiError to_api_error(const Error& error) {
  return {.status = http_status(error.code), .message = error.message, .error_code = {}, .allow = {}};
}

std::string to_body(const ApiError& error) {
  JsonObject body{{"code", error.status}, {"message", error.message}};
  if (!error.error_code.empty()) body["error_code"] = error.error_code;
  return to_text(body);
}

}  // namespace space::control

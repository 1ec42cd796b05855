// ApiError: how the API says no. {"code","message","error_code"?}, code = HTTP status, as E2B clients expect.
// Pure.
#pragma once

#include <expected>
#include <string>

#include "base/result.h"

namespace space::control {

struct ApiError {
  int status = 500;
  std::string message;     // what is wrong and what to do next
  std::string error_code;  // open set, for programs; may be empty
  std::string allow;       // of a 405: the methods that exist
};

template <class T>
using ApiResult = std::expected<T, ApiError>;

ApiError to_api_error(const Error& error);
// Of a pause, stop or resume: a node without room is 503, as for a create; 429 is for clients that ask too
// often.
ApiError move_error(const Error& error);
std::string to_body(const ApiError& error);

}  // namespace space::control

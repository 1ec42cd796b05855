#include "control/api_error.h"

#include "base/json.h"
#include "net/h2_session.h"

namespace space::control {

ApiError to_api_error(const Error& error) {
  // 502 is what the data plane says of a sandbox that is not there; the API is only out of reach for now.
  const int status = error.code == Code::unavailable ? 503 : http_status_of(error.code);
  return {.status = status, .message = error.message, .error_code = {}, .allow = {}};
}

ApiError move_error(const Error& error) {
  if (error.code == Code::exhausted) return {503, error.message, "sandbox_capacity_unavailable", ""};
  if (error.code == Code::permission_denied)
    return {503, error.message, "sandbox_tcg_multitenant_refused", ""};
  return to_api_error(error);
}

std::string to_body(const ApiError& error) {
  JsonObject body{{"code", error.status}, {"message", error.message}};
  if (!error.error_code.empty()) body["error_code"] = error.error_code;
  return to_text(body);
}

}  // namespace space::control

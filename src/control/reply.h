// Answers that many routes give.
#pragma once

#include "control/api.h"

namespace space::control {

inline Reply json_reply(int status, const Json& body) {
  return {.status = status, .body = to_text(body), .fields = {}};
}
inline Reply no_content() {
  return {.status = 204, .body = {}, .fields = {}};
}

}  // namespace space::control

// What `/gateway/test` is asked: a URL, or host and port. Pure.
#pragma once

#include "base/json.h"
#include "netd/gateway.h"

namespace space::netd {

Result<TestQuestion> test_question_in(const JsonObject& body);

}  // namespace space::netd

// Where a sandbox may connect to, in the words of people: what they type, what they read. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "cli/options.h"

namespace space::cli {

// The policy that flags of create and `egress set` describe, as the API takes it; empty: none was given.
// Without a mode: restricted where something is allowed, allow_all where something is denied only.
JsonObject egress_policy_of(const EgressFlags& flags);

// "restricted: only what a rule allows".
std::string mode_text(std::string_view mode);

// All of GET /v1/sandboxes/{id}/egress.
std::vector<std::string> egress_lines(const JsonObject& egress);
// A verdict of …/egress/test for what was asked about.
std::vector<std::string> egress_test_lines(std::string_view asked, const JsonObject& verdict, bool colour);
// One entry of the log.
std::string egress_log_line(const JsonObject& entry, bool colour);

// What `space up` says of sandboxes whose creators say nothing; "": the shipped default.
std::string egress_notice(std::string_view by_default);

}  // namespace space::cli

// EgressReason: why something of a sandbox got out, or did not. One stable word each, the same in DNS answers
// (EDE), HTTP bodies, the log and the API. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace space {

enum class EgressReason : unsigned char {
  allow_rule,
  allow_mode,
  deny_platform,
  deny_rule,
  deny_mode,
  deny_port,
  deny_pin,
  deny_no_name,
  deny_bad_name,
  deny_bad_request,
  deny_method,
  deny_protocol,
  deny_filtered,
  deny_limit,
  deny_quota,
  unresolved,
  unreachable,
  timeout,
  no_policy,
};
inline constexpr std::size_t egress_reasons = static_cast<std::size_t>(EgressReason::no_policy) + 1;

std::string_view to_string(EgressReason reason);  // the word
std::optional<EgressReason> egress_reason_from(std::string_view word);
// One sentence without a full stop: what happened and what to do about it. Names no address.
std::string_view explain(EgressReason reason);

}  // namespace space

#include "core/egress_reason.h"

#include <algorithm>
#include <array>

namespace space {
namespace {

struct Words {
  EgressReason reason;
  std::string_view word, sentence;
};

using enum EgressReason;

constexpr std::array<Words, egress_reasons> table{{
    {allow_rule, "allow_rule", "A rule of the sandbox's egress policy allows it"},
    {allow_mode, "allow_mode", "The sandbox's egress policy allows everything that no rule denies"},
    {deny_platform, "deny_platform",
     "Private, local, reserved and metadata addresses, and those of the platform, are closed to every "
     "sandbox; no allow rule opens them"},
    {deny_rule, "deny_rule", "A rule of the sandbox's egress policy denies it; remove that rule to allow it"},
    {deny_mode, "deny_mode",
     "The sandbox's egress policy allows only what its rules name, and none names this; add an allow rule "
     "for it"},
    {deny_port, "deny_port",
     "The destination is allowed, but not on this port; name the port in its rule (port 25 is only open "
     "where a rule names it)"},
    {deny_pin, "deny_pin",
     "The name is allowed, but the address is none that the sandbox was told for it; resolve the name inside "
     "the sandbox and connect to what it answers"},
    {deny_no_name, "deny_no_name",
     "The connection does not say which host it is for, and only hosts are allowed here; use TLS with a "
     "server name, or allow the address"},
    {deny_bad_name, "deny_bad_name", "The host name is not a valid one, so no rule can allow it"},
    {deny_bad_request, "deny_bad_request",
     "The request is malformed or ambiguous about its destination, and is not passed on"},
    {deny_method, "deny_method",
     "The host is allowed, but not this method or path; extend the methods or paths of its rule"},
    {deny_protocol, "deny_protocol",
     "The destination is allowed for another protocol than this connection speaks; change the protocol of "
     "its rule"},
    {deny_filtered, "deny_filtered",
     "The name is allowed, but all its addresses are private or reserved ones, which are closed to every "
     "sandbox"},
    {deny_limit, "deny_limit",
     "The sandbox is at a limit of its egress policy (connections, new connections or queries a second); "
     "try again more slowly or raise the limit"},
    {deny_quota, "deny_quota",
     "The sandbox has used the bytes that its egress policy gives it; raise bytes_total"},
    {unresolved, "unresolved", "It is allowed, but the name has no address or the resolver does not answer"},
    {unreachable, "unreachable",
     "It is allowed, but the destination refused the connection or cannot be reached"},
    {timeout, "timeout",
     "It is allowed, but the other side did not answer, or the sandbox did not send, in time"},
    {no_policy, "no_policy",
     "The network gateway has no policy for this sandbox yet, so nothing gets out; it has one as soon as the "
     "node has given it"},
}};

// One line a reason, in the order of the enumeration.
static_assert([] {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (static_cast<std::size_t>(table[i].reason) != i) return false;
  return true;
}());

}  // namespace

std::string_view to_string(EgressReason reason) {
  return table[static_cast<std::size_t>(reason)].word;
}

std::optional<EgressReason> egress_reason_from(std::string_view word) {
  const auto found = std::ranges::find(table, word, &Words::word);
  if (found == table.end()) return std::nullopt;
  return found->reason;
}

std::string_view explain(EgressReason reason) {
  return table[static_cast<std::size_t>(reason)].sentence;
}

}  // namespace space

#include "core/egress_e2b.h"

#include <algorithm>
#include <unordered_set>

namespace space {
namespace {

constexpr std::size_t entries_max = 1000;

Result<std::vector<std::string>> entries(const JsonObject* network, std::string_view key) {
  std::vector<std::string> out;
  if (network == nullptr) return out;
  SPACE_TRY(const JsonArray* array, array_member(*network, key));
  if (array == nullptr) return out;
  if (array->size() > entries_max)
    return fail(Code::invalid_argument, "'network.{}' has more than {} entries", key, entries_max);
  std::unordered_set<std::string> seen;
  for (const Json& entry : *array) {
    if (!entry.is_string())
      return fail(Code::invalid_argument, "'network.{}' must be an array of strings", key);
    if (seen.emplace(entry.get_string()).second) out.emplace_back(entry.get_string());
  }
  return out;
}

// E2B knows names of two labels and more, and wildcards of them.
bool is_domain(const HostPattern& host) {
  using enum HostPattern::Kind;
  return (host.kind == exact || host.kind == below) && host.name.contains('.');
}

// As opposed to a name, and whether or not it is a valid one.
bool is_address(std::string_view entry) {
  return entry.contains('/') || IpAddress::parse(entry);
}

Result<std::vector<EgressRule>> allowed(const std::vector<std::string>& entries) {
  std::vector<EgressRule> rules;
  for (const std::string& entry : entries) {
    EgressRule rule;
    if (is_address(entry)) {
      auto block = Cidr::parse(entry);
      if (!block)
        return wrap(std::move(block).error(), fmt::format("'network.allowOut' entry '{}'", quoted(entry)));
      rule.target = *block;
    } else {
      auto host = HostPattern::parse(entry);
      if (!host || !is_domain(*host))
        return fail(Code::invalid_argument,
                    "'network.allowOut' entry '{}' is not an IP address, CIDR or domain", quoted(entry));
      rule.target = *std::move(host);
    }
    if (std::ranges::find(rules, rule) == rules.end()) rules.push_back(std::move(rule));
  }
  return rules;
}

Result<std::vector<EgressRule>> denied(const std::vector<std::string>& entries) {
  std::vector<EgressRule> rules;
  for (const std::string& entry : entries) {
    if (!is_address(entry))
      return fail(Code::invalid_argument, "'network.denyOut' entry '{}' is not an IP address or CIDR",
                  quoted(entry));
    auto block = Cidr::parse(entry);
    if (!block)
      return wrap(std::move(block).error(), fmt::format("'network.denyOut' entry '{}'", quoted(entry)));
    rules.push_back({.target = *block});
  }
  return rules;
}

bool names_everything(const std::vector<EgressRule>& rules) {
  return std::ranges::any_of(
      rules, [](const EgressRule& rule) { return rule.cidr() != nullptr && rule.cidr()->prefix() == 0; });
}

bool names_hosts(const std::vector<EgressRule>& rules) {
  return std::ranges::any_of(rules, [](const EgressRule& rule) { return rule.host() != nullptr; });
}

}  // namespace

Result<EgressPolicy> egress_from_e2b(const JsonObject* network, std::optional<bool> allow_internet_access) {
  SPACE_TRY(const auto allow_out, entries(network, "allowOut"));
  SPACE_TRY(const auto deny_out, entries(network, "denyOut"));
  SPACE_TRY(auto allow, allowed(allow_out));
  SPACE_TRY(auto deny, denied(deny_out));
  const bool no_internet = !allow_internet_access.value_or(true);
  const bool nothing_else = no_internet || names_everything(deny);
  if (names_hosts(allow) && !nothing_else)
    return fail(Code::invalid_argument,
                "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to "
                "block all other traffic.");
  EgressPolicy policy;
  policy.allow_first = true;
  policy.pinned = false;
  if (no_internet && allow.empty()) return policy;  // deny_all
  if (names_everything(allow)) {
    policy.mode = EgressMode::allow_all;  // allow beats all that is denied
    return policy;
  }
  policy.mode = nothing_else ? EgressMode::restricted : EgressMode::allow_all;
  policy.allow = std::move(allow);
  if (!nothing_else) policy.deny = std::move(deny);
  SPACE_CHECK(check_egress_policy(policy, {.may_internal = false, .force = true}));
  return policy;
}

}  // namespace space

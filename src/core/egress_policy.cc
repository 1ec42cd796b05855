#include "core/egress_policy.h"

#include <algorithm>
#include <initializer_list>
#include <unordered_set>

namespace space {
namespace {

using namespace egress_limits;

constexpr std::int64_t conns_max = 16'384, rate_max = 10'000;
constexpr std::int64_t bytes_max = INT64_MAX;

Result<void> only_members(const JsonObject& object, std::string_view what,
                          std::initializer_list<std::string_view> known) {
  for (const auto& member : object)
    if (std::ranges::find(known, std::string_view(member.key())) == known.end())
      return fail(Code::invalid_argument, "{} has no member \"{}\"", what,
                  quoted(std::string_view(member.key())));
  return {};
}

Result<PortRange> port_range_from(const Json& value) {
  if (const auto* text = value.if_string()) return parse_port_range(std::string_view(*text));
  if (value.is_int64()) return parse_port_range(std::to_string(value.get_int64()));
  return fail(Code::invalid_argument, "'ports' has numbers and ranges like \"8000-8999\"");
}

Result<std::vector<PortRange>> ports_member(const JsonObject& object) {
  SPACE_TRY(const JsonArray* array, array_member(object, "ports"));
  std::vector<PortRange> ports;
  if (array == nullptr) return ports;
  if (array->empty()) return fail(Code::invalid_argument, "'ports' names none; leave it out for the default");
  if (array->size() > ports_max)
    return fail(Code::invalid_argument, "'ports' has more than {} entries; write ranges like \"8000-8999\"",
                ports_max);
  for (const Json& value : *array) {
    SPACE_TRY(const PortRange range, port_range_from(value));
    ports.push_back(range);
  }
  return joined(std::move(ports));
}

Result<std::vector<std::string>> words_member(const JsonObject& object, std::string_view key,
                                              std::size_t most) {
  SPACE_TRY(const JsonArray* array, array_member(object, key));
  std::vector<std::string> words;
  if (array == nullptr) return words;
  if (array->empty() || array->size() > most)
    return fail(Code::invalid_argument, "'{}' has between 1 and {} entries; leave it out for all", key, most);
  for (const Json& value : *array) {
    if (!value.is_string()) return fail(Code::invalid_argument, "'{}' is a list of strings", key);
    words.emplace_back(value.get_string());
  }
  std::ranges::sort(words);
  const auto again = std::ranges::unique(words);
  words.erase(again.begin(), again.end());
  return words;
}

Result<void> target_members(const JsonObject& object, EgressRule& rule) {
  SPACE_TRY(const auto host, text_member(object, "host"));
  SPACE_TRY(const auto cidr, text_member(object, "cidr"));
  if (host.has_value() == cidr.has_value())
    return fail(Code::invalid_argument, "a rule has either \"host\" or \"cidr\"");
  if (host) {
    SPACE_TRY(rule.target, HostPattern::parse(*host));
  } else {
    SPACE_TRY(rule.target, Cidr::parse(*cidr));
  }
  return {};
}

Result<EgressRule> rule_from(const Json& value) {
  if (const auto* text = value.if_string()) return parse_egress_rule(std::string_view(*text));
  const JsonObject* object = value.if_object();
  if (object == nullptr)
    return fail(
        Code::invalid_argument,
        "a rule is a string like \"example.com:443\" or {{\"host\" or \"cidr\",\"ports\",\"proto\"}}");
  SPACE_CHECK(
      only_members(*object, "a rule", {"host", "cidr", "ports", "proto", "methods", "paths", "inspect"}));
  SPACE_TRY(const auto inspect, bool_member(*object, "inspect"));
  if (inspect.value_or(false))
    return fail(Code::invalid_argument,
                "'inspect' is not supported: interception is not there yet; leave it out");
  EgressRule rule;
  SPACE_CHECK(target_members(*object, rule));
  SPACE_TRY(rule.ports, ports_member(*object));
  SPACE_TRY(const auto protocol, text_member(*object, "proto"));
  if (protocol) {
    const auto known = egress_protocol_from(*protocol);
    if (!known)
      return fail(Code::invalid_argument, "'proto' is \"any\", \"tls\", \"http\" or \"tcp\", not '{}'",
                  quoted(*protocol));
    rule.protocol = *known;
  }
  SPACE_TRY(rule.methods, words_member(*object, "methods", methods_max));
  SPACE_TRY(rule.paths, words_member(*object, "paths", paths_max));
  return rule;
}

JsonArray to_json(const std::vector<std::string>& words) {
  JsonArray array;
  for (const std::string& word : words) array.emplace_back(word);
  return array;
}

Json to_json(const EgressRule& rule) {
  if (!rule.by_request()) return Json(rule.text());
  JsonObject object;
  if (rule.host() != nullptr)
    object["host"] = rule.host()->text();
  else
    object["cidr"] = rule.cidr()->text();
  JsonArray ports;
  for (const PortRange& range : rule.ports) {
    if (range.first == range.last)
      ports.emplace_back(std::int64_t{range.first});
    else
      ports.emplace_back(fmt::format("{}-{}", range.first, range.last));
  }
  if (!ports.empty()) object["ports"] = std::move(ports);
  object["proto"] = to_string(rule.protocol);
  if (!rule.methods.empty()) object["methods"] = to_json(rule.methods);
  if (!rule.paths.empty()) object["paths"] = to_json(rule.paths);
  return object;
}

Result<std::vector<EgressRule>> rules_member(const JsonObject& object, EgressList list) {
  const std::string_view key = to_string(list);
  SPACE_TRY(const JsonArray* array, array_member(object, key));
  std::vector<EgressRule> rules;
  if (array == nullptr) return rules;
  if (array->size() > rules_max)
    return fail(Code::invalid_argument, "'{}' has {} rules; a policy may have {}", key, array->size(),
                rules_max);
  std::unordered_set<std::string> seen;
  for (std::size_t i = 0; i < array->size(); ++i) {
    auto rule = rule_from((*array)[i]);
    if (!rule) return wrap(std::move(rule).error(), fmt::format("{}[{}]", key, i));
    if (seen.insert(to_text(to_json(*rule))).second) rules.push_back(*std::move(rule));
  }
  return rules;
}

Result<EgressMode> mode_member(const JsonObject& object) {
  SPACE_TRY(const std::string word, require_text(object, "mode"));
  for (const auto mode : {EgressMode::allow_all, EgressMode::restricted, EgressMode::deny_all})
    if (to_string(mode) == word) return mode;
  return fail(Code::invalid_argument, "'mode' is \"allow_all\", \"restricted\" or \"deny_all\", not '{}'",
              quoted(word));
}

Result<EgressDns> dns_member(const JsonObject& object) {
  SPACE_TRY(const JsonObject* dns, object_member(object, "dns"));
  if (dns == nullptr) return EgressDns::pinned;
  SPACE_CHECK(only_members(*dns, "'dns'", {"mode"}));
  SPACE_TRY(const auto word, text_member(*dns, "mode"));
  if (!word || *word == "pinned") return EgressDns::pinned;
  if (*word == "synthetic") return EgressDns::synthetic;
  return fail(Code::invalid_argument, "'dns.mode' is \"pinned\" or \"synthetic\", not '{}'", quoted(*word));
}

struct Limit {
  std::string_view key;
  std::int64_t EgressLimits::* member;
  std::int64_t min, max;
};
constexpr Limit limit_table[] = {
    {"conns", &EgressLimits::conns, 1, conns_max},
    {"new_conns_per_s", &EgressLimits::new_conns_per_s, 1, rate_max},
    {"bytes_per_s", &EgressLimits::bytes_per_s, 0, bytes_max},
    {"dns_qps", &EgressLimits::dns_qps, 1, rate_max},
    {"bytes_total", &EgressLimits::bytes_total, 0, bytes_max},
};

Result<EgressLimits> limits_member(const JsonObject& object) {
  EgressLimits limits;
  SPACE_TRY(const JsonObject* given, object_member(object, "limits"));
  if (given == nullptr) return limits;
  SPACE_CHECK(only_members(*given, "'limits'",
                           {"conns", "new_conns_per_s", "bytes_per_s", "dns_qps", "bytes_total"}));
  for (const Limit& limit : limit_table) {
    SPACE_TRY(const auto value, int_member(*given, limit.key, limit.min, limit.max));
    if (value) limits.*limit.member = *value;
  }
  return limits;
}

JsonObject to_json(const EgressLimits& limits) {
  JsonObject object;
  for (const Limit& limit : limit_table)
    if (limits.*limit.member != EgressLimits{}.*limit.member) object[limit.key] = limits.*limit.member;
  return object;
}

}  // namespace

Result<EgressPolicy> parse_egress_policy(const JsonObject& object, EgressRights rights) {
  SPACE_CHECK(only_members(object, "an egress policy",
                           {"mode", "allow", "deny", "internal", "allow_first", "pinned", "dns", "limits"}));
  EgressPolicy policy;
  SPACE_TRY(policy.mode, mode_member(object));
  SPACE_TRY(policy.allow, rules_member(object, EgressList::allow));
  SPACE_TRY(policy.deny, rules_member(object, EgressList::deny));
  SPACE_TRY(policy.internal, rules_member(object, EgressList::internal));
  SPACE_TRY(const auto allow_first, bool_member(object, "allow_first"));
  SPACE_TRY(const auto pinned, bool_member(object, "pinned"));
  policy.allow_first = allow_first.value_or(false);
  policy.pinned = pinned.value_or(true);
  SPACE_TRY(policy.dns, dns_member(object));
  SPACE_TRY(policy.limits, limits_member(object));
  SPACE_CHECK(check_egress_policy(policy, rights));
  return policy;
}

JsonObject to_json(const EgressPolicy& policy) {
  JsonObject object{{"mode", to_string(policy.mode)}};
  const auto put = [&object](EgressList list, const std::vector<EgressRule>& rules) {
    JsonArray array;
    for (const EgressRule& rule : rules) array.push_back(to_json(rule));
    if (!array.empty()) object[to_string(list)] = std::move(array);
  };
  put(EgressList::allow, policy.allow);
  put(EgressList::deny, policy.deny);
  put(EgressList::internal, policy.internal);
  if (policy.allow_first) object["allow_first"] = true;
  if (!policy.pinned) object["pinned"] = false;
  if (policy.dns == EgressDns::synthetic) object["dns"] = JsonObject{{"mode", "synthetic"}};
  if (JsonObject limits = to_json(policy.limits); !limits.empty()) object["limits"] = std::move(limits);
  return object;
}

}  // namespace space

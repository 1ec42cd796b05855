#include "control/egress_request.h"

#include <algorithm>

#include "control/query_number.h"
#include "net/http.h"

namespace space::control {
namespace {

constexpr std::size_t url_bytes_max = 2048;
constexpr std::size_t policy_bytes_max = 900 * 1024;  // the calls to a node have 1 MiB
constexpr std::int64_t log_limit_max = 1000;
constexpr std::int64_t wait_seconds_max = 20;

Result<JsonArray> list_member(const JsonObject& body, std::string_view key) {
  SPACE_TRY(const JsonArray* array, array_member(body, key));
  if (array == nullptr) return JsonArray();
  if (array->size() > egress_limits::rules_max)
    return fail(Code::invalid_argument, "'{}' has more than {} entries", key, egress_limits::rules_max);
  return *array;
}

// The rules of a list as the policy's JSON has them.
JsonArray& list_of(JsonObject& policy, EgressList list) {
  Json& value = policy[to_string(list)];
  if (!value.is_array()) value = JsonArray();
  return value.get_array();
}

bool remove_from(std::vector<EgressRule>& rules, const std::string& text) {
  return std::erase_if(rules, [&](const EgressRule& rule) { return rule.text() == text; }) > 0;
}

Result<void> remove_rule(EgressPolicy& policy, const std::string& given) {
  // As it was written, or as it is shown.
  const auto parsed = parse_egress_rule(given);
  const std::string text = parsed ? parsed->text() : given;
  const bool allowed = remove_from(policy.allow, text);
  const bool denied = remove_from(policy.deny, text);
  const bool internal = remove_from(policy.internal, text);
  if (allowed || denied || internal) return {};
  return fail(Code::invalid_argument, "there is no rule '{}' to remove; GET …/egress shows those there are",
              quoted(given));
}

}  // namespace

EgressPolicy egress_of(const EgressWish& wish, EgressMode by_default) {
  EgressPolicy policy = wish.policy.value_or(EgressPolicy{.mode = by_default});
  if (wish.on_top && by_default != EgressMode::allow_all) policy.mode = EgressMode::restricted;
  return policy;
}

Result<std::optional<EgressPolicy>> read_egress(const JsonObject& body, EgressRights rights) {
  SPACE_TRY(const JsonObject* given, object_member(body, "egress"));
  if (given == nullptr) return std::nullopt;
  auto policy = parse_egress_policy(*given, rights);
  if (!policy) return wrap(std::move(policy).error(), "'egress'");
  return *std::move(policy);
}

Result<EgressPolicy> parse_egress_request(std::string_view text, EgressRights rights) {
  SPACE_TRY(const JsonObject body, parse_json_object(text, "the request body"));
  return parse_egress_policy(body, rights);
}

Result<EgressEdit> parse_egress_edit(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_json_object(text, "the request body"));
  for (const auto& member : body)
    if (member.key() != "allow" && member.key() != "deny" && member.key() != "remove")
      return fail(Code::invalid_argument, "'{}' is none of allow, deny and remove",
                  quoted(std::string_view(member.key())));
  EgressEdit edit;
  SPACE_TRY(edit.allow, list_member(body, "allow"));
  SPACE_TRY(edit.deny, list_member(body, "deny"));
  SPACE_TRY(const JsonArray remove, list_member(body, "remove"));
  for (const Json& value : remove) {
    if (!value.is_string())
      return fail(Code::invalid_argument, "'remove' has rules as text, like \"example.com:443\"");
    edit.remove.emplace_back(value.get_string());
  }
  if (edit.allow.empty() && edit.deny.empty() && edit.remove.empty())
    return fail(Code::invalid_argument, "there is nothing to change: give allow, deny or remove");
  return edit;
}

Result<EgressPolicy> edited(const EgressPolicy& policy, const EgressEdit& edit, EgressRights rights) {
  EgressPolicy changed = policy;
  for (const std::string& text : edit.remove) SPACE_CHECK(remove_rule(changed, text));
  if (!edit.allow.empty() && changed.mode == EgressMode::deny_all) changed.mode = EgressMode::restricted;
  // What is there may stay, whoever wrote it; what comes is judged by the rights of who writes it.
  JsonObject added = to_json(
      EgressPolicy{.mode = EgressMode::restricted, .internal = changed.internal, .allow_first = true});
  JsonObject whole = to_json(changed);
  for (JsonObject* json : {&added, &whole}) {
    for (const Json& rule : edit.allow) list_of(*json, EgressList::allow).push_back(rule);
    for (const Json& rule : edit.deny) list_of(*json, EgressList::deny).push_back(rule);
  }
  SPACE_CHECK(parse_egress_policy(added, {.may_internal = true, .force = rights.force}));
  return parse_egress_policy(whole, {.may_internal = true, .force = true});
}

Result<JsonObject> parse_egress_test(std::string_view text) {
  SPACE_TRY(const JsonObject body, parse_json_object(text, "the request body"));
  SPACE_TRY(const auto url, text_member(body, "url"));
  SPACE_TRY(const auto host, text_member(body, "host"));
  if (url.has_value() == host.has_value())
    return fail(Code::invalid_argument, "give either 'url', or 'host' and 'port'");
  if ((url ? url->size() : host->size()) > url_bytes_max)
    return fail(Code::invalid_argument, "'{}' is longer than {} bytes", url ? "url" : "host", url_bytes_max);
  if (url) return JsonObject{{"url", *url}};
  SPACE_TRY(const auto port, require_int(body, "port", 1, 65535));
  // The node takes an address of IPv6 as URLs have it.
  const bool bare = host->contains(':') && !host->starts_with('[');
  return JsonObject{{"host", bare ? fmt::format("[{}]", *host) : *host}, {"port", port}};
}

Result<JsonObject> parse_egress_log_query(std::string_view text) {
  JsonObject request;
  for (const auto& [name, value] : http::parse_query(text)) {
    if (name == "after") {
      SPACE_TRY(request["after"], query_number(name, value, 0, INT64_MAX));
    } else if (name == "limit") {
      SPACE_TRY(request["limit"], query_number(name, value, 1, log_limit_max));
    } else if (name == "wait") {
      SPACE_TRY(const auto seconds, query_number(name, value, 0, wait_seconds_max));
      request["wait_ms"] = seconds * 1000;
    }
  }
  return request;
}

bool is_forced(std::string_view query) {
  return http::query_value(query, "force") == "true";
}

Result<std::string> policy_text(const EgressPolicy& policy) {
  std::string text = to_text(to_json(policy));
  if (text.size() > policy_bytes_max)
    return fail(Code::invalid_argument,
                "the policy is {} KiB of JSON; it may be {}: use wildcards and blocks", text.size() / 1024,
                policy_bytes_max / 1024);
  return text;
}

Result<EgressPolicy> policy_of(const store::Egress& egress) {
  SPACE_TRY(const JsonObject object, parse_json_object(egress.policy, "the stored policy"));
  return parse_egress_policy(object, {.may_internal = true, .force = true});
}

}  // namespace space::control

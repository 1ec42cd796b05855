#include "control/network_options.h"

#include <algorithm>

#include "core/egress_e2b.h"

namespace space::control {
namespace {

constexpr std::size_t name_length_max = 253;

bool is_given(const JsonObject& network, std::string_view key) {
  const Json* value = network.if_contains(key);
  if (value == nullptr || value->is_null()) return false;
  if (value->is_object()) return !value->get_object().empty();
  if (value->is_array()) return !value->get_array().empty();
  return true;
}

Result<void> refuse_unsupported(const JsonObject& network) {
  constexpr std::pair<std::string_view, std::string_view> unsupported[] = {
      {"rules", "headers are not added to requests yet"},
      {"egressProxy", "connections go out by this node's own gateway only"},
      {"httpsPorts", "ports of a sandbox are reached as they are"},
  };
  for (const auto& [key, why] : unsupported)
    if (is_given(network, key))
      return fail(Code::invalid_argument, "'network.{}' is not supported by this version: {}. Leave it out",
                  key, why);
  return {};
}

// allow_internet_access true says nothing: old SDKs send it with every create.
Result<EgressWish> wish_of(const JsonObject* network, std::optional<bool> allow_internet_access) {
  SPACE_TRY(EgressPolicy policy, egress_from_e2b(network, allow_internet_access));
  const bool says = !allow_internet_access.value_or(true) ||
                    (network != nullptr && (is_given(*network, "allowOut") || is_given(*network, "denyOut")));
  if (!says) return EgressWish();
  // Without any rule left, everything was opened in words.
  const bool on_top = policy.mode == EgressMode::allow_all && !(policy.allow.empty() && policy.deny.empty());
  return EgressWish{.policy = std::move(policy), .on_top = on_top};
}

// What only a create says.
Result<void> read_ports(const JsonObject& network, store::SandboxOptions& options) {
  SPACE_TRY(const auto public_traffic, bool_member(network, "allowPublicTraffic"));
  SPACE_TRY(const auto mask, text_member(network, "maskRequestHost"));
  if (mask && (mask->size() > name_length_max ||
               !std::ranges::all_of(*mask, [](char c) { return c > ' ' && c < 0x7f; })))
    return fail(Code::invalid_argument,
                "'network.maskRequestHost' must be at most {} printable ASCII characters", name_length_max);
  options.allow_public_traffic = public_traffic.value_or(true);
  options.mask_request_host = mask.value_or("");
  return {};
}

}  // namespace

Result<EgressWish> read_network(const JsonObject& body, store::SandboxOptions& options) {
  SPACE_TRY(options.allow_internet_access, bool_member(body, "allow_internet_access"));
  SPACE_TRY(const JsonObject* network, object_member(body, "network"));
  SPACE_TRY(EgressWish wish, wish_of(network, options.allow_internet_access));
  if (network != nullptr) {
    SPACE_CHECK(refuse_unsupported(*network));
    SPACE_CHECK(read_ports(*network, options));
    options.network = to_text(*network);
  }
  return wish;
}

Result<NetworkChange> parse_network_change(std::string_view text) {
  JsonObject body;
  if (!text.empty()) {
    SPACE_TRY(body, parse_json_object(text, "the request body"));
  }
  NetworkChange change;
  SPACE_TRY(change.allow_internet_access, bool_member(body, "allow_internet_access"));
  SPACE_TRY(change.wish, wish_of(&body, change.allow_internet_access));
  SPACE_CHECK(refuse_unsupported(body));
  for (const char* key : {"allowOut", "denyOut"})
    if (const Json* list = body.if_contains(key); list != nullptr && list->is_array())
      change.lists[key] = *list;
  return change;
}

std::string changed_network(const std::string& before, const JsonObject& lists) {
  JsonObject network = lists;
  const auto old = before.empty() ? Result<JsonObject>(JsonObject()) : parse_json_object(before, "network");
  for (const char* key : {"allowPublicTraffic", "maskRequestHost"})
    if (const Json* value = old ? old->if_contains(key) : nullptr) network[key] = *value;
  return network.empty() ? std::string() : to_text(network);
}

}  // namespace space::control

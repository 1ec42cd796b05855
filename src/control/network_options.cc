#include "control/network_options.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <vector>

namespace space::control {
namespace {

constexpr std::size_t entries_max = 1000;
constexpr std::size_t name_length_max = 253;

Result<std::vector<std::string>> read_entries(const JsonObject& network, std::string_view key) {
  SPACE_TRY(const JsonArray* array, array_member(network, key));
  std::vector<std::string> entries;
  if (array == nullptr) return entries;
  if (array->size() > entries_max)
    return fail(Code::invalid_argument, "'network.{}' has more than {} entries", key, entries_max);
  for (const Json& entry : *array) {
    if (!entry.is_string())
      return fail(Code::invalid_argument, "'network.{}' must be an array of strings", key);
    entries.emplace_back(entry.get_string());
  }
  return entries;
}

bool is_address_or_cidr(const std::string& text) {
  const auto slash = text.find('/');
  const std::string address = text.substr(0, slash);
  in6_addr ignored;
  const bool v4 = inet_pton(AF_INET, address.c_str(), &ignored) == 1;
  if (!v4 && inet_pton(AF_INET6, address.c_str(), &ignored) != 1) return false;
  if (slash == std::string::npos) return true;
  unsigned bits = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data() + slash + 1, last, bits);
  return error == std::errc() && end == last && bits <= (v4 ? 32U : 128U);
}

bool is_domain(std::string_view text) {
  if (text.starts_with("*.")) text.remove_prefix(2);
  if (text.empty() || text.size() > name_length_max || text.starts_with('.') || text.ends_with('.'))
    return false;
  if (text.contains("..") || !text.contains('.')) return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
  });
}

Result<void> check_addresses(const JsonObject& network) {
  SPACE_TRY(const auto allowed, read_entries(network, "allowOut"));
  SPACE_TRY(const auto denied, read_entries(network, "denyOut"));
  for (const auto& entry : denied)
    if (!is_address_or_cidr(entry))
      return fail(Code::invalid_argument, "'network.denyOut' entry '{}' is not an IP address or CIDR", entry);
  bool domains = false;
  for (const auto& entry : allowed) {
    if (is_address_or_cidr(entry)) continue;
    if (!is_domain(entry))
      return fail(Code::invalid_argument,
                  "'network.allowOut' entry '{}' is not an IP address, CIDR or domain", entry);
    domains = true;
  }
  if (domains && std::ranges::find(denied, "0.0.0.0/0") == denied.end())
    return fail(Code::invalid_argument,
                "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to "
                "block all other traffic.");
  return {};
}

bool is_given(const JsonObject& network, std::string_view key) {
  const Json* value = network.if_contains(key);
  if (value == nullptr || value->is_null()) return false;
  if (value->is_object()) return !value->get_object().empty();
  if (value->is_array()) return !value->get_array().empty();
  return true;
}

}  // namespace

Result<void> read_network(const JsonObject& network, store::SandboxOptions& options) {
  SPACE_CHECK(check_addresses(network));
  for (const std::string_view key : {"rules", "egressProxy", "httpsPorts"})
    if (is_given(network, key))
      return fail(Code::invalid_argument,
                  "'network.{}' is not supported by this version. Create the sandbox without it", key);
  SPACE_TRY(const auto public_traffic, bool_member(network, "allowPublicTraffic"));
  SPACE_TRY(const auto mask, text_member(network, "maskRequestHost"));
  if (mask && (mask->size() > name_length_max ||
               !std::ranges::all_of(*mask, [](char c) { return c > ' ' && c < 0x7f; })))
    return fail(Code::invalid_argument,
                "'network.maskRequestHost' must be at most {} printable ASCII characters", name_length_max);
  options.allow_public_traffic = public_traffic.value_or(true);
  options.mask_request_host = mask.value_or("");
  options.network = to_text(network);
  return {};
}

}  // namespace space::control

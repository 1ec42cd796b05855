#include "control/router.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace space::control {
namespace {

constexpr std::array table = std::to_array<RouteEntry>({
    {"GET", "/health", Action::health},
    {"POST", "/v2/sandboxes", Action::sandbox_create_v2},
    {"POST", "/sandboxes", Action::sandbox_create_v1},
    {"POST", "/v2/sandboxes/{id}/connect", Action::sandbox_connect_v2},
    {"POST", "/sandboxes/{id}/connect", Action::sandbox_connect_v1},
    {"GET", "/v2/sandboxes", Action::sandbox_list},
    {"GET", "/sandboxes/{id}", Action::sandbox_get},
    {"DELETE", "/sandboxes/{id}", Action::sandbox_delete},
    {"POST", "/sandboxes/{id}/timeout", Action::sandbox_set_timeout},
    {"POST", "/sandboxes/{id}/resume", Action::sandbox_resume},
    {"POST", "/sandboxes/{id}/pause", Action::sandbox_pause},
    {"POST", "/v1/sandboxes/{id}/stop", Action::sandbox_stop},
    {"POST", "/v1/sandboxes/{id}/start", Action::sandbox_start},
    {"POST", "/v1/sandboxes/{id}/snapshots", Action::sandbox_checkpoint},
    {"GET", "/v1/sandboxes/{id}/snapshots", Action::sandbox_snapshots},
    {"DELETE", "/v1/sandboxes/{id}/snapshots/{number}", Action::snapshot_remove},
    {"PATCH", "/v1/sandboxes/{id}/snapshots/{number}", Action::snapshot_change},
    {"POST", "/v1/sandboxes/{id}/fork", Action::sandbox_fork_v1},
    {"POST", "/sandboxes/{id}/fork", Action::sandbox_fork},
    {"POST", "/sandboxes/{id}/snapshots", Action::snapshot_publish},
    {"GET", "/snapshots", Action::published_list},
    {"DELETE", "/templates/{id}", Action::published_remove},
    {"POST", "/v1/sandboxes/{id}/rollback", Action::sandbox_rollback},
    {"GET", "/v1/sandboxes/{id}/schedule", Action::schedule_get},
    {"PUT", "/v1/sandboxes/{id}/schedule", Action::schedule_set},
    {"GET", "/v1/sandboxes/{id}/recovery", Action::recovery_get},
    {"PUT", "/v1/sandboxes/{id}/recovery", Action::recovery_set},
    {"POST", "/v1/sandboxes/{id}/recovery", Action::recovery_start},
    {"GET", "/v1/sandboxes/{id}/history", Action::sandbox_history},
    {"GET", "/v1/sandboxes/{id}/diff", Action::sandbox_diff},
    {"GET", "/v1/sandboxes/{id}/pause-policy", Action::pause_policy_get},
    {"PUT", "/v1/sandboxes/{id}/pause-policy", Action::pause_policy_set},
    {"PUT", "/sandboxes/{id}/network", Action::sandbox_set_network},
    {"GET", "/v1/sandboxes/{id}/egress", Action::egress_get},
    {"PUT", "/v1/sandboxes/{id}/egress", Action::egress_set},
    {"POST", "/v1/sandboxes/{id}/egress/rules", Action::egress_edit},
    {"POST", "/v1/sandboxes/{id}/egress/test", Action::egress_test},
    {"GET", "/v1/sandboxes/{id}/egress/log", Action::egress_log},
    {"GET", "/v1/sandboxes/{id}/tunnel", Action::sandbox_tunnel},
    {"GET", "/sandboxes/{id}/logs", Action::sandbox_logs_v1},
    {"GET", "/v2/sandboxes/{id}/logs", Action::sandbox_logs_v2},
    {"GET", "/v1/sandboxes/{id}/stats", Action::sandbox_stats},
    {"GET", "/v1/sandboxes/{id}/isolation", Action::sandbox_isolation},
    {"GET", "/v1/sandboxes/{id}", Action::sandbox_inspect},
    {"GET", "/v1/stats", Action::stats_list},
    {"GET", "/files", Action::signed_file},
    {"HEAD", "/files", Action::signed_file},
    {"POST", "/files", Action::signed_file},
    {"OPTIONS", "/files", Action::signed_file},
    {"GET", "/v1/templates", Action::template_list},
    {"POST", "/v1/templates", Action::template_add},
    {"DELETE", "/v1/templates/{id}", Action::template_remove},
    {"GET", "/v1/pools", Action::pool_list},
    {"PUT", "/v1/pools/{id}", Action::pool_set},
    {"GET", "/v1/node", Action::node_info},
    // A plain 404 would make the SDK say that the sandbox does not exist.
    {"POST", "/sandboxes/{id}/refreshes", Action::not_available},
    {"GET", "/sandboxes/{id}/metrics", Action::not_available},
});

bool all_of(std::string_view text, bool (*predicate)(char)) {
  return std::ranges::all_of(text, predicate);
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_label_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z');
}

// The name of a Host field: lower case, without port and brackets.
std::string host_name(std::string_view host) {
  std::string name;
  if (host.starts_with('[')) {
    name = host.substr(1, host.find(']') - 1);
  } else {
    name = host.substr(0, host.find(':'));
  }
  std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return name;
}

bool is_ip_address(const std::string& name) {
  in6_addr address;
  return inet_pton(AF_INET, name.c_str(), &address) == 1 || inet_pton(AF_INET6, name.c_str(), &address) == 1;
}

bool may_name_sandbox_in_headers(const std::string& host) {
  return host == "localhost" || host.starts_with("sandbox.") || is_ip_address(host);
}

std::string_view without_client_suffix(std::string_view id) {
  return id.substr(0, id.find('-'));
}

// `<port>-<sandbox id>[-…].…`, or nothing. Only real sandbox ids: 127-0-0-1.example must stay a plain host.
std::optional<DataPlaneRoute> route_of_host(const std::string& host) {
  const std::string_view label = std::string_view(host).substr(0, host.find('.'));
  const auto dash = label.find('-');
  if (dash == std::string_view::npos || label.size() == host.size()) return std::nullopt;
  const auto port = parse_port(label.substr(0, dash));
  const auto id = without_client_suffix(label.substr(dash + 1));
  if (!port || !is_sandbox_id(id)) return std::nullopt;
  return DataPlaneRoute{std::string(id), *port};
}

// Nothing when the request does not speak of a sandbox in its headers.
std::optional<Route> route_of_headers(const http::RequestHead& head, const std::string& host) {
  const auto id_field = head.fields.get("E2b-Sandbox-Id");
  const auto port_field = head.fields.get("E2b-Sandbox-Port");
  if (!id_field && !port_field) return std::nullopt;
  if (!id_field || !port_field) return InvalidTarget{"missing header"};
  if (!may_name_sandbox_in_headers(host)) return InvalidTarget{"Invalid host"};
  const auto id = without_client_suffix(*id_field);
  if (id.empty() || id.size() > 63 || !all_of(id, is_label_character))
    return InvalidTarget{"Invalid sandbox ID"};
  const auto port = parse_port(*port_field);
  if (!port) return InvalidTarget{"Invalid sandbox port"};
  return DataPlaneRoute{std::string(id), *port};
}

// What `path` has at the braces of `pattern`, still encoded; nothing when it has another shape.
struct Captured {
  std::string_view id, number;
};

std::string_view next_segment(std::string_view& path) {
  const auto end = std::min(path.find('/', 1), path.size());
  const auto segment = path.substr(0, end);
  path.remove_prefix(end);
  return segment;
}

std::optional<Captured> match(std::string_view pattern, std::string_view path) {
  Captured captured;
  while (!pattern.empty() && !path.empty()) {
    const auto wanted = next_segment(pattern);
    const auto given = next_segment(path);
    const bool filled = given.size() > 1 && given.front() == '/';
    if (wanted == "/{id}" && filled)
      captured.id = given.substr(1);
    else if (wanted == "/{number}" && filled)
      captured.number = given.substr(1);
    else if (wanted != given)
      return std::nullopt;
  }
  return pattern.empty() && path.empty() ? std::optional(captured) : std::nullopt;
}

Route route_of_path(const http::RequestHead& head) {
  std::string allow;
  for (const RouteEntry& entry : table) {
    const auto raw = match(entry.pattern, head.path());
    if (!raw) continue;
    if (entry.method != head.method) {
      allow += allow.empty() ? entry.method : fmt::format(", {}", entry.method);
      continue;
    }
    auto id = http::percent_decode(raw->id, false);
    auto number = http::percent_decode(raw->number, false);
    if (!id || !number) break;
    if (entry.pattern.contains("sandboxes/{")) id = std::string(without_client_suffix(*id));
    return ApiRoute{entry.action, *std::move(id), *std::move(number)};
  }
  if (!allow.empty())
    return ApiError{405, fmt::format("{} is not allowed here. Use {}", head.method, allow), "", allow};
  return ApiError{404, fmt::format("There is no route {} {}", head.method, head.path()), "", ""};
}

}  // namespace

std::optional<std::uint16_t> parse_port(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

std::span<const RouteEntry> api_routes() {
  return table;
}

Route route(const http::RequestHead& head) {
  const std::string host = host_name(head.fields.get("Host").value_or(""));
  if (auto by_host = route_of_host(host)) return *std::move(by_host);
  if (auto by_headers = route_of_headers(head, host)) return *std::move(by_headers);
  return route_of_path(head);
}

bool is_internal_path(std::string_view path) {
  constexpr std::array internal = std::to_array<std::string_view>(
      {"/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw", "/upgrade"});
  std::string decoded = http::percent_decode(path, false).value_or(std::string(path));
  while (decoded.starts_with("//")) decoded.erase(0, 1);
  while (decoded.size() > 1 && decoded.ends_with('/')) decoded.pop_back();
  return std::ranges::find(internal, std::string_view(decoded)) != internal.end();
}

}  // namespace space::control

// One rule of an egress policy: its text, both ways, and its ports.
#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "core/egress_policy.h"

namespace space {
namespace {

constexpr std::uint16_t port_last = 65535, port_mail = 25;

constexpr std::array<std::pair<EgressProtocol, std::string_view>, 4> protocols{{
    {EgressProtocol::any, "any"},
    {EgressProtocol::tls, "tls"},
    {EgressProtocol::http, "http"},
    {EgressProtocol::tcp, "tcp"},
}};

std::optional<std::uint16_t> port_from(std::string_view text) {
  std::uint16_t port = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, port);
  if (error != std::errc() || end != last || text.starts_with('0')) return std::nullopt;
  return port;
}

// An address, or something that was meant as one: "10/8", "10.0.0.256/24".
bool looks_like_block(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('/'));
  if (std::ranges::count(head, ':') > 1) return true;
  const std::string_view last = head.substr(head.rfind('.') + 1);
  return !last.empty() && std::ranges::all_of(last, [](char c) { return c >= '0' && c <= '9'; });
}

Result<std::variant<HostPattern, Cidr>> target_from(std::string_view text) {
  if (looks_like_block(text)) {
    SPACE_TRY(const Cidr block, Cidr::parse(text));
    return block;
  }
  SPACE_TRY(HostPattern pattern, HostPattern::parse(text));
  return pattern;
}

struct Split {
  std::string_view target;
  std::optional<std::string_view> ports;
};

// At the ':' before the ports. IPv6 has ports only in brackets.
Split split_ports(std::string_view text) {
  if (const auto end = text.find(']'); text.starts_with('[') && end != std::string_view::npos) {
    const std::string_view inner = text.substr(1, end - 1), behind = text.substr(end + 1);
    if (behind.empty()) return {inner, std::nullopt};
    if (behind.starts_with(':')) return {inner, behind.substr(1)};
  }
  if (std::ranges::count(text, ':') != 1 || text.contains("://")) return {text, std::nullopt};
  const auto colon = text.find(':');
  return {text.substr(0, colon), text.substr(colon + 1)};
}

Result<std::vector<PortRange>> ports_from(std::string_view text) {
  std::vector<PortRange> ports;
  while (true) {
    const auto comma = text.find(',');
    SPACE_TRY(const PortRange range, parse_port_range(text.substr(0, comma)));
    ports.push_back(range);
    if (comma == std::string_view::npos) return joined(std::move(ports));
    text.remove_prefix(comma + 1);
  }
}

std::string ports_text(const std::vector<PortRange>& ports) {
  std::string out;
  for (const PortRange& range : ports) {
    if (!out.empty()) out += ',';
    out += std::to_string(range.first);
    if (range.last != range.first) out += fmt::format("-{}", range.last);
  }
  return out;
}

std::string list_text(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? " " : ",") + word;
  return out;
}

}  // namespace

std::string EgressRule::text() const {
  std::string out;
  const Cidr* const block = cidr();
  const bool brackets = block != nullptr && !block->first().is_v4() && !ports.empty();
  if (brackets) out += '[';
  out += block != nullptr ? block->text() : host()->text();
  if (brackets) out += ']';
  if (!ports.empty()) out += ':' + ports_text(ports);
  if (protocol != EgressProtocol::any) out += fmt::format(" {}", to_string(protocol));
  return out + list_text(methods) + list_text(paths);
}

std::vector<PortRange> joined(std::vector<PortRange> ranges) {
  std::ranges::sort(ranges);
  std::vector<PortRange> out;
  for (const PortRange& range : ranges) {
    if (!out.empty() && range.first <= std::uint32_t{out.back().last} + 1)
      out.back().last = std::max(out.back().last, range.last);
    else
      out.push_back(range);
  }
  return out;
}

std::vector<PortRange> ports_of(const EgressRule& rule, EgressList list) {
  if (!rule.ports.empty()) return rule.ports;
  if (list != EgressList::allow) return {{1, port_last}};
  if (rule.cidr() != nullptr) return {{1, port_mail - 1}, {port_mail + 1, port_last}};
  if (rule.protocol == EgressProtocol::tls) return {{443, 443}};
  if (rule.protocol == EgressProtocol::http) return {{80, 80}};
  return {{80, 80}, {443, 443}};
}

Result<PortRange> parse_port_range(std::string_view text) {
  const auto dash = text.find('-');
  const auto first = port_from(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : port_from(text.substr(dash + 1));
  if (!first || !last)
    return fail(Code::invalid_argument, "'{}' is no port or range of ports, as '443' and '8000-8999' are",
                quoted(text));
  if (*first > *last)
    return fail(Code::invalid_argument, "'{}' is no range of ports; write '{}-{}'", quoted(text), *last,
                *first);
  return PortRange{*first, *last};
}

Result<EgressRule> parse_egress_rule(std::string_view text) {
  EgressRule rule;
  const auto space = text.find(' ');
  if (space != std::string_view::npos) {
    const auto protocol = egress_protocol_from(text.substr(space + 1));
    if (!protocol)
      return fail(Code::invalid_argument, "'{}' is no rule: behind a space stands 'tls', 'http' or 'tcp'",
                  quoted(text));
    rule.protocol = *protocol;
  }
  const Split split = split_ports(text.substr(0, space));
  SPACE_TRY(rule.target, target_from(split.target));
  if (split.ports) {
    SPACE_TRY(rule.ports, ports_from(*split.ports));
  }
  return rule;
}

std::string_view to_string(EgressMode mode) {
  switch (mode) {
    case EgressMode::allow_all:
      return "allow_all";
    case EgressMode::restricted:
      return "restricted";
    case EgressMode::deny_all:
      return "deny_all";
  }
  return "";
}

std::string_view to_string(EgressList list) {
  switch (list) {
    case EgressList::allow:
      return "allow";
    case EgressList::deny:
      return "deny";
    case EgressList::internal:
      return "internal";
  }
  return "";
}

std::string_view to_string(EgressProtocol protocol) {
  return protocols[static_cast<std::size_t>(protocol)].second;
}

std::optional<EgressProtocol> egress_protocol_from(std::string_view word) {
  const auto found = std::ranges::find(protocols, word, &decltype(protocols)::value_type::second);
  if (found == protocols.end()) return std::nullopt;
  return found->first;
}

}  // namespace space

#include "cli/egress_text.h"

#include <algorithm>

#include "cli/fields.h"
#include "cli/output.h"

namespace space::cli {

namespace {

constexpr const char* green = "\x1b[32m";
constexpr const char* red = "\x1b[31m";
constexpr const char* plain = "\x1b[0m";

std::string coloured(std::string_view text, bool good, bool colour) {
  if (!colour) return std::string(text);
  return fmt::format("{}{}{}", good ? green : red, text, plain);
}

JsonArray texts_json(const std::vector<std::string>& texts) {
  JsonArray array;
  for (const std::string& text : texts) array.emplace_back(text);
  return array;
}

// A rule as text, or as the object it is.
std::string rule_text(const Json& rule) {
  return printable(rule.is_string() ? std::string(rule.get_string()) : to_text(rule));
}

void add_rules(std::vector<std::string>& lines, const JsonObject& policy, std::string_view key) {
  const auto rules = array_member(policy, key);
  if (!rules || *rules == nullptr) return;
  std::string title(key);
  for (const Json& rule : **rules) {
    lines.push_back(fmt::format("{:<12} {}", title, rule_text(rule)));
    title.clear();
  }
}

// Members that change how the rules count.
std::string ways_of(const JsonObject& policy) {
  std::string ways;
  const auto add = [&ways](std::string_view way) {
    ways += fmt::format("{}{}", ways.empty() ? "" : "; ", way);
  };
  if (flag_at(policy, "allow_first")) add("allow beats deny");
  if (policy.contains("pinned") && !flag_at(policy, "pinned"))
    add("names count whatever address was dialled");
  if (const JsonObject* dns = object_at(policy, "dns");
      dns != nullptr && text_at(*dns, "mode") == "synthetic")
    add("each name has an address of its own");
  return ways;
}

std::string reasons_text(const JsonObject& counters) {
  const JsonObject* by_reason = object_at(counters, "by_reason");
  std::vector<std::pair<std::int64_t, std::string>> refusals;
  if (by_reason != nullptr)
    for (const auto& member : *by_reason)
      if (const std::string_view word = member.key(); !word.starts_with("allow_"))
        refusals.emplace_back(number_at(*by_reason, word), word);
  std::ranges::sort(refusals, std::greater());
  std::string text;
  for (const auto& [count, word] : refusals)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(word), count);
  return text.empty() ? text : " (" + text + ")";
}

void add_counters(std::vector<std::string>& lines, const JsonObject& counters) {
  lines.push_back(fmt::format("connections  {} live, {} in all, {} refused{}", number_at(counters, "flows"),
                              number_at(counters, "flows_total"), number_at(counters, "denied_total"),
                              reasons_text(counters)));
  lines.push_back(fmt::format("traffic      {} in, {} out", bytes_at(counters, "bytes_in"),
                              bytes_at(counters, "bytes_out")));
  lines.push_back(fmt::format("names        {} asked for, {} refused", number_at(counters, "dns_queries"),
                              number_at(counters, "dns_refused")));
}

std::string host_port(const std::string& host, std::int64_t port) {
  const bool v6 = host.contains(':');
  if (port == 0) return host;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

// "GET pypi.org:80/simple (151.101.0.223)".
std::string target_of(const JsonObject& entry) {
  const std::string host = text_at(entry, "host", ""), address = text_at(entry, "address", "");
  const std::int64_t port = number_at(entry, "port");
  if (text_at(entry, "kind") == "dns") return host;
  std::string target = text_at(entry, "method", "");
  if (!target.empty()) target += ' ';
  target += host_port(host.empty() ? address : host, port) + text_at(entry, "path", "");
  if (!host.empty() && !address.empty()) target += fmt::format(" ({})", address);
  return target;
}

// "2026-11-30 18:00:01Z" of RFC 3339.
std::string time_of(const JsonObject& entry) {
  return moment_text(time_at(entry, "at"));
}

}  // namespace

JsonObject egress_policy_of(const EgressFlags& flags) {
  if (flags.mode.empty() && flags.allow.empty() && flags.deny.empty()) return {};
  const std::string_view implied = flags.allow.empty() ? "allow_all" : "restricted";
  JsonObject policy{{"mode", flags.mode.empty() ? implied : std::string_view(flags.mode)}};
  if (!flags.allow.empty()) policy["allow"] = texts_json(flags.allow);
  if (!flags.deny.empty()) policy["deny"] = texts_json(flags.deny);
  return policy;
}

std::string mode_text(std::string_view mode) {
  const std::string_view meaning = mode == "allow_all"    ? "everything, but what a rule denies"
                                   : mode == "restricted" ? "only what a rule allows"
                                   : mode == "deny_all"   ? "nothing, names neither"
                                                          : "";
  return meaning.empty() ? printable(mode) : fmt::format("{}: {}", mode, meaning);
}

std::vector<std::string> egress_lines(const JsonObject& egress) {
  std::vector<std::string> lines;
  if (const JsonObject* policy = object_at(egress, "policy")) {
    lines.push_back("mode         " + mode_text(text_at(*policy, "mode")));
    for (const char* key : {"deny", "allow", "internal"}) add_rules(lines, *policy, key);
    if (const std::string ways = ways_of(*policy); !ways.empty()) lines.push_back("ways         " + ways);
    if (const JsonObject* limits = object_at(*policy, "limits"))
      for (const auto& member : *limits)
        lines.push_back(fmt::format("limit        {} {}", printable(member.key()), to_text(member.value())));
  }
  lines.push_back(fmt::format("generation   {}", number_at(egress, "generation")));
  if (const JsonObject* network = object_at(egress, "network")) {
    const std::string reason = text_at(*network, "reason", "");
    lines.push_back(fmt::format("gateway      {}{}{}", printable(text_at(*network, "state")),
                                reason.empty() ? "" : ": ", printable(reason)));
  }
  if (const JsonObject* counters = object_at(egress, "counters")) add_counters(lines, *counters);
  return lines;
}

std::vector<std::string> egress_test_lines(std::string_view asked, const JsonObject& verdict, bool colour) {
  const bool allowed = flag_at(verdict, "allowed");
  const std::string rule = text_at(verdict, "rule", ""), why = text_at(verdict, "explanation", "");
  std::vector<std::string> lines{
      fmt::format("{}  {}", coloured(allowed ? "allowed" : "refused", allowed, colour), printable(asked))};
  lines.push_back(fmt::format("reason   {}{}{}", printable(text_at(verdict, "reason")),
                              why.empty() ? "" : ": ", printable(why)));
  lines.push_back("rule     " + (rule.empty() ? "none" : printable(rule)));
  lines.push_back("to       " + printable(host_port(text_at(verdict, "host"), number_at(verdict, "port"))));
  const auto addresses = array_member(verdict, "addresses");
  if (addresses && *addresses != nullptr && !(*addresses)->empty()) {
    std::string text;
    for (const Json& address : **addresses)
      if (address.is_string()) text += (text.empty() ? "" : " ") + printable(address.get_string());
    lines.push_back("at       " + text);
  }
  return lines;
}

std::string egress_log_line(const JsonObject& entry, bool colour) {
  const std::string kind = text_at(entry, "kind");
  if (kind == "policy")
    return fmt::format("{}  ----   policy  generation {} is in force", time_of(entry),
                       number_at(entry, "generation"));
  const bool allowed = flag_at(entry, "allowed");
  std::string line = fmt::format("{}  {}  {:<4}  {}  {}", time_of(entry),
                                 coloured(allowed ? "allow" : "deny ", allowed, colour), printable(kind),
                                 printable(target_of(entry)), printable(text_at(entry, "reason")));
  if (const std::string rule = text_at(entry, "rule", ""); !rule.empty()) line += "  by " + printable(rule);
  if (entry.contains("bytes_in"))
    line += fmt::format("  ended: {} in, {} out", bytes_at(entry, "bytes_in"), bytes_at(entry, "bytes_out"));
  if (const std::int64_t count = number_at(entry, "count"); count > 1) line += fmt::format("  x{}", count);
  return line;
}

std::string egress_notice(std::string_view by_default) {
  const std::string_view word = by_default.empty() ? "allow_all" : by_default;
  const std::string_view meaning = word == "allow_all"    ? "the whole internet, but no private address"
                                   : word == "restricted" ? "nothing, until a rule allows it"
                                                          : "nothing";
  return fmt::format(
      "Egress: a sandbox whose creator says nothing reaches {} ({}). Change it: `space up --egress-default "
      "deny_all`, or egress_default in [network] of space.toml; of one sandbox: `space egress --help`",
      meaning, word);
}

}  // namespace space::cli

// What one decision costs by a policy of 10,000 rules, next to looking at every rule.
#include <cstdlib>
#include <functional>

#include "base/log.h"
#include "bench/report.h"
#include "core/egress_matcher.h"
#include "core/egress_reference.h"

namespace space::bench {
namespace {

constexpr int rules = 10'000;
constexpr int decisions = 2'000;  // of a sample
constexpr double goal_us = 2.0;

EgressRule host_rule(std::string name, HostPattern::Kind kind) {
  return {.target = HostPattern{kind, std::move(name)}};
}

// Half names, a quarter wildcards of several depths, a quarter blocks nested in each other.
EgressPolicy large_policy() {
  using enum HostPattern::Kind;
  EgressPolicy policy{.mode = EgressMode::restricted};
  for (int i = 0; i < rules / 4; ++i) {
    const std::string number = std::to_string(i);
    policy.allow.push_back(host_rule("h" + number + ".example.com", exact));
    policy.deny.push_back(host_rule("bad" + number + ".w" + number + ".example.net", exact));
    policy.allow.push_back(
        host_rule("w" + number + (i % 2 == 0 ? ".example.net" : ".eu.west.example.net"), below));
    const auto address = IpAddress::v4(0x0800'0000 + static_cast<std::uint32_t>(i) * 0x400);
    policy.allow.push_back({.target = Cidr::around(address, 12 + i % 21)});
  }
  return policy;
}

// Longest possible: every label could be where a wildcard begins.
std::string longest_name() {
  std::string name;
  while (name.size() < 230) name += "a.";
  return name + "w1.eu.west.example.net";
}

using Ask = std::function<EgressVerdict(int)>;

// Microseconds of one decision, of many.
Samples timed(const Ask& ask, int rounds, int count) {
  Samples samples;
  std::size_t allowed = 0;
  for (int round = 0; round < rounds; ++round) {
    const Stopwatch watch;
    for (int i = 0; i < count; ++i) allowed += ask(i).allowed ? 1 : 0;
    samples.add(watch.ms() * 1000 / count);
  }
  if (allowed > static_cast<std::size_t>(rounds) * static_cast<std::size_t>(count)) std::abort();
  return samples;
}

void print_decisions(const EgressMatcher& matcher, int rounds) {
  const EgressPolicy& policy = matcher.policy();
  std::vector<std::string> names;
  for (int i = 0; i < decisions; ++i) {
    const std::string number = std::to_string(i);
    names.push_back("h" + number + ".example.com");
    names.push_back("x.y.w" + number + ".example.net");
    names.push_back("bad" + number + ".w" + number + ".example.net");
    names.push_back("nobody" + number + ".example.org");
  }
  const auto name = [&names](int i) { return std::string_view(names[static_cast<std::size_t>(i)]); };
  const auto address = [](int i) {
    return IpAddress::v4(0x0800'0000 + static_cast<std::uint32_t>(i) * 0x3ff);
  };
  const std::string longest = longest_name();
  const Samples by_name =
      timed([&](int i) { return matcher.name(name(i), 443, EgressProtocol::tls); }, rounds, decisions);
  const Samples scanned =
      timed([&](int i) { return reference::name(policy, name(i), 443, EgressProtocol::tls); },
            std::min(rounds, 5), 20);
  print("egress-policy", "decide_name_us", by_name, Peer{"every_rule_us", scanned}, goal_us, "us");
  print("egress-policy", "decide_longest_name_us",
        timed([&](int) { return matcher.name(longest, 443, EgressProtocol::tls); }, rounds, decisions), {},
        goal_us, "us");
  const Samples by_address =
      timed([&](int i) { return matcher.address(address(i), 443); }, rounds, decisions);
  const Samples address_scanned =
      timed([&](int i) { return reference::address(policy, address(i), 443, EgressProtocol::any); },
            std::min(rounds, 5), 20);
  print("egress-policy", "decide_address_us", by_address, Peer{"every_rule_us", address_scanned}, goal_us,
        "us");
  print("egress-policy", "resolve_us",
        timed([&](int i) { return matcher.resolve(name(i)); }, rounds, decisions), {}, goal_us, "us");
  const PlatformDeny platform({*Cidr::parse("8.8.8.8"), *Cidr::parse("2606:4700::1")});
  print("egress-policy", "dialable_us",
        timed([&](int i) { return matcher.dialable(platform, address(i), 443, name(i)); }, rounds, decisions),
        {}, goal_us, "us");
}

Result<void> measure(int rounds) {
  print_machine("egress-policy");
  const EgressPolicy policy = large_policy();
  const std::string text = to_text(to_json(policy));
  Samples parse, compile;
  for (int i = 0; i < std::min(rounds, 10); ++i) {
    const Stopwatch parsing;
    SPACE_TRY(const JsonObject object, parse_json_object(text, "policy"));
    SPACE_TRY(EgressPolicy parsed, parse_egress_policy(object, {.may_internal = true, .force = true}));
    parse.add(parsing.ms());
    const Stopwatch compiling;
    const EgressMatcher matcher(std::move(parsed));
    compile.add(compiling.ms());
  }
  print("egress-policy", "parse_ms", parse);
  print("egress-policy", "compile_ms", compile);
  print_decisions(EgressMatcher(policy), rounds);
  return {};
}

}  // namespace
}  // namespace space::bench

int main(int argc, char** argv) {
  space::log::init("egress_policy_bench");
  const auto done = space::bench::measure(argc > 1 ? std::atoi(argv[1]) : 100);
  if (!done) space::log::error("the benchmark failed", {space::log::Field(done.error())});
  return done ? 0 : 1;
}

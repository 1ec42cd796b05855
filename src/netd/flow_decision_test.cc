#include "netd/flow_decision.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace space::netd {
namespace {

EgressMatcher matcher(std::string_view text) {
  const auto json = parse_json_object(text, "policy");
  EXPECT_TRUE(json) << json.error().message;
  auto policy = parse_egress_policy(*json, {.may_internal = true, .force = true});
  EXPECT_TRUE(policy) << policy.error().message << " in " << text;
  return EgressMatcher(policy ? *std::move(policy) : EgressPolicy{});
}

Destination to(std::string_view address, std::uint16_t port, std::vector<std::string> names = {}) {
  return {.address = *IpAddress::parse(address), .port = port, .names = std::move(names), .synthetic = false};
}
Destination synthetic(std::uint16_t port, std::string name) {
  return {.address = *IpAddress::parse("198.18.1.1"),
          .port = port,
          .names = {std::move(name)},
          .synthetic = true};
}

// "to the name": as the gateway resolves it. "to the address": where the guest connected to.
std::string said(const FlowDecision& decision) {
  if (!decision.verdict.allowed) return std::string(to_string(decision.verdict.reason));
  return decision.resolve ? "to the name" : "to the address";
}

constexpr char web[] = R"({"mode":"restricted","allow":["web.example.com","*.wild.example.com",
  "ssh.example.com:22","192.0.2.0/24","198.51.100.0/24:443"],"deny":["bad.wild.example.com","192.0.2.66"],
  "internal":["192.0.2.0/24","198.51.100.0/24"]})";

TEST(FlowDecision, TlsGoesToTheNameThatTheGuestWasTold) {
  const EgressMatcher by = matcher(web);
  const auto tls = [&](const Destination& destination, const char* name) {
    return said(decide_tls(by, destination, name));
  };
  EXPECT_EQ(tls(to("45.0.0.1", 443, {"web.example.com"}), "web.example.com"), "to the name");
  EXPECT_EQ(tls(to("45.0.0.1", 443, {"other.example", "web.example.com"}), "web.example.com"), "to the name");
  EXPECT_EQ(tls(to("45.0.0.1", 443, {"a.wild.example.com"}), "a.wild.example.com"), "to the name");
  EXPECT_EQ(tls(to("45.0.0.1", 443), "web.example.com"), "deny_pin");
  EXPECT_EQ(tls(to("45.0.0.1", 443, {"a.wild.example.com"}), "web.example.com"), "deny_pin");
  EXPECT_EQ(tls(to("45.0.0.1", 443, {"web.example.com"}), "evil.example"), "deny_mode");
  EXPECT_EQ(tls(to("45.0.0.1", 443, {"bad.wild.example.com"}), "bad.wild.example.com"), "deny_rule");
  EXPECT_EQ(tls(to("45.0.0.1", 8443, {"web.example.com"}), "web.example.com"), "deny_port");
}

TEST(FlowDecision, ABlockAllowsItsAddressesWhateverTheyAreCalled) {
  const EgressMatcher by = matcher(web);
  EXPECT_EQ(said(decide_tls(by, to("192.0.2.1", 443), "any.example")), "to the address");
  EXPECT_EQ(said(decide_tls(by, to("192.0.2.1", 443), "web.example.com")), "to the address");
  EXPECT_EQ(said(decide_tls(by, to("192.0.2.66", 443), "any.example")), "deny_rule");
  EXPECT_EQ(said(decide_tls(by, to("192.0.2.1", 443), "bad.wild.example.com")), "deny_rule");
  EXPECT_EQ(said(decide_nameless(by, to("192.0.2.1", 443), EgressReason::deny_no_name)), "to the address");
  EXPECT_EQ(said(decide_tcp(by, to("192.0.2.1", 22))), "to the address");
  EXPECT_EQ(said(decide_tcp(by, to("192.0.2.66", 22))), "deny_rule");
  EXPECT_EQ(said(decide_tcp(by, to("198.51.100.1", 22))), "deny_port");
}

TEST(FlowDecision, WhoSaysNoNameIsJudgedByTheAddressAlone) {
  const EgressMatcher by = matcher(web);
  const Destination told = to("45.0.0.1", 443, {"web.example.com"});
  EXPECT_EQ(said(decide_nameless(by, told, EgressReason::deny_no_name)), "deny_no_name");
  EXPECT_EQ(said(decide_nameless(by, told, EgressReason::deny_bad_name)), "deny_bad_name");
  EXPECT_EQ(said(decide_nameless(by, to("192.0.2.66", 443), EgressReason::deny_no_name)), "deny_rule");
  const EgressMatcher all = matcher(R"({"mode":"allow_all","deny":["bad.example"]})");
  EXPECT_EQ(said(decide_nameless(all, to("45.0.0.1", 443), EgressReason::deny_no_name)), "to the address");
  EXPECT_EQ(said(decide_nameless(all, to("45.0.0.1", 443, {"bad.example"}), EgressReason::deny_no_name)),
            "deny_rule");
}

// The address that was told is the one that is meant: nothing the flow says names another.
TEST(FlowDecision, WithoutReadingAnythingThePinsSayWhoIsMeant) {
  const EgressMatcher by = matcher(web);
  EXPECT_EQ(said(decide_tcp(by, to("45.0.0.1", 22, {"ssh.example.com"}))), "to the address");
  EXPECT_EQ(said(decide_tcp(by, to("45.0.0.1", 22, {"web.example.com", "ssh.example.com"}))),
            "to the address");
  EXPECT_EQ(said(decide_tcp(by, to("45.0.0.1", 22))), "deny_mode");
  EXPECT_EQ(said(decide_tcp(by, to("45.0.0.1", 22, {"web.example.com"}))), "deny_port");
  EXPECT_EQ(said(decide_tcp(by, to("45.0.0.1", 2222, {"ssh.example.com"}))), "deny_port");
  EXPECT_EQ(said(decide_tcp(by, to("45.0.0.1", 22, {"ssh.example.com", "bad.wild.example.com"}))),
            "deny_rule");
}

TEST(FlowDecision, ARequestIsJudgedByItsHost) {
  const EgressMatcher by = matcher(R"({"mode":"restricted","allow":["web.example.com",
    {"host":"api.example.com","ports":[80],"proto":"http","methods":["GET"],"paths":["/v1/*"]},"192.0.2.0/24"],
    "internal":["192.0.2.0/24"]})");
  const auto http = [&](const Destination& destination, const char* name, const char* method,
                        const char* path) {
    return said(decide_http(by, destination, {.name = name, .method = method, .path = path}));
  };
  const Destination both = to("45.0.0.1", 80, {"web.example.com", "api.example.com"});
  EXPECT_EQ(http(both, "web.example.com", "POST", "/"), "to the name");
  EXPECT_EQ(http(both, "api.example.com", "GET", "/v1/x"), "to the name");
  EXPECT_EQ(http(both, "api.example.com", "POST", "/v1/x"), "deny_method");
  EXPECT_NE(http(both, "api.example.com", "GET", "/v2"), "to the name");
  EXPECT_EQ(http(both, "evil.example", "GET", "/"), "deny_mode");
  EXPECT_EQ(http(to("45.0.0.1", 80), "web.example.com", "GET", "/"), "deny_pin");
  EXPECT_EQ(http(both, "", "GET", "/"), "deny_mode") << "the address as Host";
  EXPECT_EQ(http(to("192.0.2.1", 80), "", "GET", "/"), "to the address");
  EXPECT_EQ(http(both, "api.example.com", "", ""), "to the name") << "between two requests";
}

TEST(FlowDecision, WithoutPinsTheNameIsDialledWhereverTheGuestWentTo) {
  const EgressMatcher by = matcher(R"({"mode":"restricted","allow":["web.example.com"],"pinned":false})");
  EXPECT_EQ(said(decide_tls(by, to("45.0.0.66", 443), "web.example.com")), "to the name");
  EXPECT_EQ(
      said(decide_http(by, to("45.0.0.66", 80), {.name = "web.example.com", .method = "GET", .path = "/"})),
      "to the name");
  EXPECT_EQ(said(decide_tls(by, to("45.0.0.66", 443), "evil.example")), "deny_mode");
  EXPECT_EQ(said(decide_tcp(by, to("45.0.0.66", 443))), "deny_mode");
}

TEST(FlowDecision, AllowFirstBeatsDeny) {
  const char* lists =
      R"({"mode":"allow_all","allow":["web.example.com"],"deny":["45.0.0.0/24"],"pinned":false,
    "allow_first":%})";
  const auto with = [&](const char* first) {
    std::string text = lists;
    text.replace(text.find('%'), 1, first);
    const auto json = parse_json_object(text, "policy");
    const auto policy = parse_egress_policy(*json, {.may_internal = true, .force = true});
    if (policy) return said(decide_tls(EgressMatcher(*policy), to("45.0.0.1", 443), "web.example.com"));
    return std::string("no policy");
  };
  EXPECT_EQ(with("true"), "to the name");
  EXPECT_NE(with("false"), "to the name");
}

TEST(FlowDecision, ASyntheticAddressIsItsName) {
  const EgressMatcher by = matcher(R"({"mode":"restricted","allow":["db.example.com:5432","web.example.com"],
    "dns":{"mode":"synthetic"}})");
  EXPECT_EQ(said(decide_tcp(by, synthetic(5432, "db.example.com"))), "to the name");
  EXPECT_EQ(said(decide_tcp(by, synthetic(22, "db.example.com"))), "deny_port");
  EXPECT_EQ(said(decide_tls(by, synthetic(443, "web.example.com"), "web.example.com")), "to the name");
  EXPECT_EQ(said(decide_tls(by, synthetic(443, "db.example.com"), "web.example.com")), "deny_pin");
  EXPECT_EQ(said(decide_nameless(by, synthetic(443, "web.example.com"), EgressReason::deny_no_name)),
            "deny_no_name");
  EXPECT_EQ(
      said(decide_http(by, synthetic(80, "web.example.com"), {.name = "", .method = "GET", .path = "/"})),
      "deny_no_name");
}

TEST(FlowDecision, WhereAllIsAllowedTheAddressIsDialledAsItIs) {
  const EgressMatcher by = matcher(R"({"mode":"allow_all","deny":["bad.example","45.9.0.0/16"]})");
  EXPECT_EQ(said(decide_tls(by, to("45.0.0.1", 443), "any.example")), "to the address");
  EXPECT_EQ(said(decide_tls(by, to("45.0.0.1", 443), "bad.example")), "deny_rule");
  EXPECT_EQ(said(decide_tls(by, to("45.9.0.1", 443), "any.example")), "deny_rule");
  EXPECT_EQ(said(decide_tcp(by, to("45.0.0.1", 5555))), "to the address");
  EXPECT_EQ(said(decide_tcp(by, to("45.0.0.1", 25))), "deny_port");
}

}  // namespace
}  // namespace space::netd

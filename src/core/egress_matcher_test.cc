#include "core/egress_matcher.h"

#include <gtest/gtest.h>

#include "core/request_path.h"

namespace space {
namespace {

using enum EgressReason;
using enum EgressProtocol;

// Unchecked: what a matcher does must not depend on the checks at writing.
EgressMatcher matcher(EgressMode mode, std::vector<std::string_view> allow,
                      std::vector<std::string_view> deny = {}, std::vector<std::string_view> internal = {},
                      bool allow_first = false) {
  const auto rules = [](const std::vector<std::string_view>& texts) {
    std::vector<EgressRule> out;
    for (const std::string_view text : texts) out.push_back(parse_egress_rule(text).value());
    return out;
  };
  EgressPolicy policy{.mode = mode, .allow = rules(allow), .deny = rules(deny), .internal = rules(internal)};
  policy.allow_first = allow_first;
  return EgressMatcher(std::move(policy));
}

EgressMatcher restricted(std::vector<std::string_view> allow, std::vector<std::string_view> deny = {}) {
  return matcher(EgressMode::restricted, std::move(allow), std::move(deny));
}

IpAddress ip(std::string_view text) {
  return *IpAddress::parse(text);
}

#define EXPECT_VERDICT(question, reason_, rule_)                                                 \
  do {                                                                                           \
    const EgressVerdict verdict_ = (question);                                                   \
    EXPECT_EQ(to_string(verdict_.reason), to_string(reason_));                                   \
    EXPECT_EQ(verdict_.rule, rule_);                                                             \
    EXPECT_EQ(verdict_.allowed, verdict_.reason == allow_rule || verdict_.reason == allow_mode); \
  } while (false)

TEST(EgressMatcher, ANameWithoutPortsIsTheWeb) {
  const EgressMatcher m = restricted({"allowed.com", "ssh.com:22", "8.8.8.8"});
  EXPECT_VERDICT(m.name("allowed.com", 443, tls), allow_rule, "allow allowed.com");
  EXPECT_VERDICT(m.name("allowed.com", 80, http), allow_rule, "allow allowed.com");
  EXPECT_VERDICT(m.name("allowed.com", 22, tcp), deny_port, "allow allowed.com");
  EXPECT_VERDICT(m.name("ssh.com", 22, tcp), allow_rule, "allow ssh.com:22");  // case 63
  EXPECT_VERDICT(m.name("ssh.com", 443, tls), deny_port, "allow ssh.com:22");
  EXPECT_VERDICT(m.name("other.com", 443, tls), deny_mode, "");
  EXPECT_VERDICT(m.address(ip("8.8.8.8"), 22), allow_rule, "allow 8.8.8.8");
  EXPECT_VERDICT(m.address(ip("8.8.8.9"), 22), deny_mode, "");  // case 62
  EXPECT_VERDICT(m.address(ip("8.8.8.8"), 0), deny_port, "");
}

TEST(EgressMatcher, TheMostSpecificRuleIsNamed) {
  const EgressMatcher m = restricted({"*", "*.com", "*.allowed.com", "+.b.allowed.com", "a.b.allowed.com",
                                      "0.0.0.0/0", "8.0.0.0/8", "8.8.8.8"});
  EXPECT_VERDICT(m.name("a.b.allowed.com", 443, tls), allow_rule, "allow a.b.allowed.com");
  EXPECT_VERDICT(m.name("b.allowed.com", 443, tls), allow_rule, "allow +.b.allowed.com");
  EXPECT_VERDICT(m.name("x.y.b.allowed.com", 443, tls), allow_rule, "allow +.b.allowed.com");
  EXPECT_VERDICT(m.name("c.allowed.com", 443, tls), allow_rule, "allow *.allowed.com");
  EXPECT_VERDICT(m.name("allowed.com", 443, tls), allow_rule, "allow *.com");
  EXPECT_VERDICT(m.name("org", 443, tls), allow_rule, "allow *");
  EXPECT_VERDICT(m.address(ip("8.8.8.8"), 1), allow_rule, "allow 8.8.8.8");
  EXPECT_VERDICT(m.address(ip("8.8.8.9"), 1), allow_rule, "allow 8.0.0.0/8");
  EXPECT_VERDICT(m.address(ip("9.0.0.0"), 1), allow_rule, "allow 0.0.0.0/0");
}

TEST(EgressMatcher, AWildcardIsNotItsApex) {  // case 60
  const EgressMatcher m = restricted({"*.allowed.com"});
  EXPECT_TRUE(m.name("a.b.allowed.com", 443, tls).allowed);
  EXPECT_FALSE(m.name("allowed.com", 443, tls).allowed);
  for (const std::string_view name :
       {"xallowed.com", "allowed.com.evil.com", "a.allowed.com.evil.com"})  // case 59
    EXPECT_FALSE(m.name(name, 443, tls).allowed) << name;
}

TEST(EgressMatcher, AddressesMatchNoNames) {  // case 8
  const EgressMatcher m = restricted({"*"});
  EXPECT_TRUE(m.name("one.one.one.one", 443, tls).allowed);
  EXPECT_VERDICT(m.address(ip("1.1.1.1"), 443), deny_mode, "");
}

TEST(EgressMatcher, BlocksEndWhereTheyEnd) {  // case 61
  const EgressMatcher m = restricted({"8.8.8.8/32", "9.0.0.0/9", "2606::/16"});
  EXPECT_FALSE(m.address(ip("8.8.8.7"), 80).allowed);
  EXPECT_TRUE(m.address(ip("8.8.8.8"), 80).allowed);
  EXPECT_FALSE(m.address(ip("8.8.8.9"), 80).allowed);
  EXPECT_TRUE(m.address(ip("9.127.255.255"), 80).allowed);
  EXPECT_FALSE(m.address(ip("9.128.0.0"), 80).allowed);
  EXPECT_TRUE(m.address(ip("2606:ffff::"), 80).allowed);
  EXPECT_FALSE(m.address(ip("2607::"), 80).allowed);
}

TEST(EgressMatcher, BothFamiliesAreDecidedAlike) {  // case 31
  const EgressMatcher m = restricted({"0.0.0.0/0", "::/0"}, {"8.8.8.0/24", "2606:4700::/32"});
  EXPECT_VERDICT(m.address(ip("8.8.8.1"), 443), deny_rule, "deny 8.8.8.0/24");
  EXPECT_VERDICT(m.address(ip("2606:4700::1"), 443), deny_rule, "deny 2606:4700::/32");
  EXPECT_TRUE(m.address(ip("8.8.9.1"), 443).allowed);
  EXPECT_TRUE(m.address(ip("2606:4701::1"), 443).allowed);
  EXPECT_VERDICT(m.address(ip("64:ff9b::808:801"), 443), deny_rule, "deny 8.8.8.0/24");
  EXPECT_TRUE(m.address(ip("64:ff9b::808:901"), 443).allowed);
}

TEST(EgressMatcher, DenyGoesFirstUnlessE2bAsks) {
  const std::vector<std::string_view> allow{"*.a.com", "8.8.8.8"}, deny{"b.a.com", "8.8.8.0/24"};
  const EgressMatcher ours = restricted(allow, deny);
  EXPECT_VERDICT(ours.name("b.a.com", 443, tls), deny_rule, "deny b.a.com");
  EXPECT_VERDICT(ours.name("c.a.com", 443, tls), allow_rule, "allow *.a.com");
  EXPECT_VERDICT(ours.address(ip("8.8.8.8"), 443), deny_rule, "deny 8.8.8.0/24");
  const EgressMatcher e2b = matcher(EgressMode::allow_all, allow, deny, {}, true);
  EXPECT_VERDICT(e2b.name("b.a.com", 443, tls), allow_rule, "allow *.a.com");
  EXPECT_VERDICT(e2b.address(ip("8.8.8.8"), 443), allow_rule, "allow 8.8.8.8");
  EXPECT_VERDICT(e2b.address(ip("8.8.8.9"), 443), deny_rule, "deny 8.8.8.0/24");
  EXPECT_VERDICT(e2b.address(ip("9.9.9.9"), 443), allow_mode, "");
}

TEST(EgressMatcher, MailIsClosedWhereNoRuleNamesIt) {
  EXPECT_VERDICT(matcher(EgressMode::allow_all, {}).address(ip("8.8.8.8"), 25), deny_port, "");
  EXPECT_VERDICT(matcher(EgressMode::allow_all, {}).address(ip("8.8.8.8"), 587), allow_mode, "");
  EXPECT_VERDICT(restricted({"8.8.8.8"}).address(ip("8.8.8.8"), 25), deny_port, "allow 8.8.8.8");
  EXPECT_TRUE(restricted({"8.8.8.8:25"}).address(ip("8.8.8.8"), 25).allowed);
  EXPECT_TRUE(matcher(EgressMode::allow_all, {"mx.com:25"}).name("mx.com", 25, tcp).allowed);
}

TEST(EgressMatcher, ProtocolsAreTold) {
  const EgressMatcher m =
      restricted({"a.com tls", "a.com http", "b.com:9000 tls", "8.8.8.8:443 tcp", "c.com:5000"});
  EXPECT_VERDICT(m.name("a.com", 443, tls), allow_rule, "allow a.com tls");
  EXPECT_VERDICT(m.name("a.com", 443, tcp), deny_protocol, "allow a.com tls");
  EXPECT_VERDICT(m.name("a.com", 80, http), allow_rule, "allow a.com http");
  EXPECT_VERDICT(m.name("a.com", 80, tls), deny_protocol, "allow a.com http");
  EXPECT_EQ(m.expected(ip("1.1.1.1"), 443, {}), tls);
  EXPECT_EQ(m.expected(ip("1.1.1.1"), 8443, {}), tls);
  EXPECT_EQ(m.expected(ip("1.1.1.1"), 80, {}), http);
  EXPECT_EQ(m.expected(ip("1.1.1.1"), 22, {}), tcp);
  EXPECT_EQ(m.expected(ip("8.8.8.8"), 443, {}), tcp) << "the rule says so";
  const std::vector<std::string> pins{"c.com", "b.com"};
  EXPECT_EQ(m.expected(ip("1.1.1.1"), 9000, pins), tls) << "the rule of a name of the address says so";
  EXPECT_EQ(m.expected(ip("1.1.1.1"), 9001, pins), tcp);
}

TEST(EgressMatcher, RequestsAreComparedWithMethodsAndPaths) {
  EgressPolicy policy{.mode = EgressMode::restricted};
  policy.allow = {*parse_egress_rule("a.com http"), *parse_egress_rule("free.com")};
  policy.allow[0].methods = {"GET", "HEAD"};
  policy.allow[0].paths = {"/v1/*", "/health"};
  const EgressMatcher m(policy);
  EXPECT_TRUE(m.http("a.com", 80, "GET", "/v1/x").allowed);
  EXPECT_TRUE(m.http("a.com", 80, "HEAD", "/health").allowed);
  EXPECT_VERDICT(m.http("a.com", 80, "POST", "/v1/x"), deny_method,
                 "allow a.com http GET,HEAD /v1/*,/health");
  EXPECT_EQ(m.http("a.com", 80, "GET", "/v2").reason, deny_method);
  EXPECT_EQ(m.http("a.com", 80, "GET", "/v1/../admin").reason, deny_method);
  EXPECT_EQ(m.http("a.com", 81, "GET", "/v1/x").reason, deny_port);
  EXPECT_TRUE(m.http("free.com", 80, "POST", "/v1/../admin").allowed) << "its rule says nothing of paths";
  EXPECT_TRUE(m.name("a.com", 80, http).allowed) << "some request is allowed";
  EXPECT_EQ(m.name("a.com", 80, tcp).reason, deny_protocol);
}

TEST(RequestPath, WhatCanBeReadAsAnotherPathMatchesNothing) {
  const std::vector<std::string> under{"/v1/*"}, one{"/v1"};
  for (const std::string_view path :
       {"/v1/", "/v1/a", "/v1/a.b", "/v1/%41", "/v1/..a", "/v1/a;b=c", "/v1/.well-known/x"})
    EXPECT_TRUE(path_matches(under, path)) << path;
  for (const std::string_view path :
       {"/v1",     "/v2/a",        "v1/a",       "",          "/v1/../a",  "/v1/..",  "/v1/./a",
        "/v1//a",  "/v1/%2e%2E/a", "/v1/a%2Fb",  "/v1/a%5cb", "/v1/%252e", "/v1/%00", "/v1/a\\b",
        "/v1/%zz", "/v1/%2",       "/v1/..;x/a", "/v1/a b",   "/v1/a?b",   "/v1/a#b"})
    EXPECT_FALSE(path_matches(under, path)) << path;
  EXPECT_TRUE(path_matches(one, "/v1"));
  EXPECT_FALSE(path_matches(one, "/v1/"));
  EXPECT_FALSE(path_matches({}, "/v1"));
}

TEST(EgressMatcher, OnlyWhatIsAllowedIsResolved) {  // case 23
  const EgressMatcher m = restricted({"a.com:22", "*.b.com"}, {"x.b.com", "y.b.com:443"});
  EXPECT_VERDICT(m.resolve("a.com"), allow_rule, "allow a.com:22");
  EXPECT_VERDICT(m.resolve("data.a.com"), deny_mode, "");
  EXPECT_VERDICT(m.resolve("data.b.com"), allow_rule, "allow *.b.com");
  EXPECT_VERDICT(m.resolve("x.b.com"), deny_rule, "deny x.b.com");
  EXPECT_VERDICT(m.resolve("y.b.com"), allow_rule, "allow *.b.com");
  EXPECT_FALSE(restricted({"0.0.0.0/0"}).name_may_resolve("a.com")) << "addresses are allowed, no names";
  const EgressMatcher open = matcher(EgressMode::allow_all, {}, {"evil.com", "half.com:443"});
  EXPECT_VERDICT(open.resolve("a.com"), allow_mode, "");
  EXPECT_VERDICT(open.resolve("evil.com"), deny_rule, "deny evil.com");
  EXPECT_VERDICT(open.resolve("half.com"), allow_mode, "");
  EXPECT_VERDICT(matcher(EgressMode::deny_all, {"a.com"}).resolve("a.com"), deny_mode, "");
}

TEST(EgressMatcher, DenyAllIsAll) {
  const EgressMatcher m = matcher(EgressMode::deny_all, {"a.com", "8.8.8.8"}, {}, {}, true);
  EXPECT_VERDICT(m.name("a.com", 443, tls), deny_mode, "");
  EXPECT_VERDICT(m.address(ip("8.8.8.8"), 443), deny_mode, "");
  EXPECT_VERDICT(m.http("a.com", 80, "GET", "/"), deny_mode, "");
  EXPECT_VERDICT(m.dialable({}, ip("8.8.8.8"), 443), deny_mode, "");
}

TEST(EgressMatcher, ThePlatformsSetWinsOverEveryRule) {  // cases 1, 3, 61
  const EgressMatcher m = restricted({"0.0.0.0/0", "::/0", "*"});
  for (const std::string_view text : {"169.254.169.254", "10.0.0.5", "127.0.0.1", "0.0.0.0", "::1",
                                      "::ffff:10.0.0.5", "64:ff9b::a00:5", "2002:a00:5::", "::10.0.0.5"}) {
    EXPECT_VERDICT(m.dialable({}, ip(text), 80), deny_platform, "");
    EXPECT_VERDICT(m.dialable({}, ip(text), 80, "a.com"), deny_platform, "");
    EXPECT_VERDICT(m.refused_at_accept({}, ip(text), 80, {}).value_or(EgressVerdict()), deny_platform, "");
  }
  EXPECT_TRUE(m.dialable({}, ip("8.8.8.8"), 80).allowed);
  EXPECT_FALSE(m.refused_at_accept({}, ip("8.8.8.8"), 80, {}));
  const PlatformDeny own({*Cidr::parse("8.8.8.8")});
  EXPECT_VERDICT(m.dialable(own, ip("8.8.8.8"), 80), deny_platform, "");
  EXPECT_VERDICT(m.refused_at_accept({}, ip("8.8.8.8"), 0, {}).value_or(EgressVerdict()), deny_port, "");
}

TEST(EgressMatcher, InternalOpensWhatItNames) {
  const EgressMatcher m =
      matcher(EgressMode::restricted, {"*"}, {}, {"10.0.0.0/8:5432", "db.corp.com:5432", "11.1.1.1"});
  const PlatformDeny deny({*Cidr::parse("10.0.0.9"), *Cidr::parse("11.1.1.1")});
  EXPECT_VERDICT(m.dialable(deny, ip("10.0.0.5"), 5432), allow_rule, "internal 10.0.0.0/8:5432");
  EXPECT_VERDICT(m.dialable(deny, ip("10.0.0.5"), 80), deny_platform, "");
  EXPECT_VERDICT(m.dialable(deny, ip("10.0.0.9"), 5432), deny_platform,
                 "");  // the node itself: not by a block
  EXPECT_TRUE(m.dialable(deny, ip("11.1.1.1"), 80).allowed) << "the node itself: named exactly";
  EXPECT_VERDICT(m.dialable(deny, ip("192.168.1.1"), 5432, "db.corp.com"), allow_rule,
                 "internal db.corp.com:5432");
  EXPECT_VERDICT(m.dialable(deny, ip("192.168.1.1"), 5432, "other.com"), deny_platform, "");
  EXPECT_VERDICT(m.dialable(deny, ip("192.168.1.1"), 80, "db.corp.com"), deny_platform, "");
  EXPECT_VERDICT(m.dialable(deny, ip("127.0.0.1"), 5432, "db.corp.com"), deny_platform, "");
  EXPECT_TRUE(m.dialable(deny, ip("192.168.1.1"), 0, "db.corp.com").allowed)
      << "an answer of DNS: on any port";
  EXPECT_FALSE(m.dialable(deny, ip("192.168.1.1"), 0, "other.com").allowed);
  const std::vector<std::string> pins{"db.corp.com"};
  EXPECT_FALSE(m.refused_at_accept(deny, ip("192.168.1.1"), 5432, pins));
  EXPECT_TRUE(m.refused_at_accept(deny, ip("192.168.1.1"), 5432, {}));
  EXPECT_VERDICT(m.address(ip("10.0.0.5"), 5432), deny_mode, "");  // it opens, and allows nothing
}

TEST(EgressMatcher, DeniedBlocksHoldForResolvedAddressesToo) {
  const std::vector<std::string_view> allow{"a.com"}, deny{"8.8.8.0/24", "9.9.9.9:443"};
  const EgressMatcher ours = restricted(allow, deny);
  EXPECT_VERDICT(ours.dialable({}, ip("8.8.8.8"), 443, "a.com"), deny_rule, "deny 8.8.8.0/24");
  EXPECT_VERDICT(ours.dialable({}, ip("9.9.9.9"), 443, "a.com"), deny_rule, "deny 9.9.9.9:443");
  EXPECT_TRUE(ours.dialable({}, ip("9.9.9.9"), 80, "a.com").allowed);
  EXPECT_TRUE(ours.dialable({}, ip("9.9.9.9"), 0, "a.com").allowed) << "on some port";
  EXPECT_FALSE(ours.dialable({}, ip("8.8.8.8"), 0, "a.com").allowed) << "on none";
  EXPECT_VERDICT(ours.refused_at_accept({}, ip("8.8.8.8"), 443, {}).value_or(EgressVerdict()), deny_rule,
                 "deny 8.8.8.0/24");
  const EgressMatcher e2b = matcher(EgressMode::restricted, allow, deny, {}, true);
  EXPECT_TRUE(e2b.dialable({}, ip("8.8.8.8"), 443, "a.com").allowed);
  EXPECT_FALSE(e2b.dialable({}, ip("8.8.8.8"), 443, "b.com").allowed);
  EXPECT_FALSE(e2b.dialable({}, ip("8.8.8.8"), 443).allowed);
  EXPECT_FALSE(e2b.refused_at_accept({}, ip("8.8.8.8"), 443, {})) << "the name may turn out to be allowed";
  EXPECT_TRUE(
      matcher(EgressMode::allow_all, {}, deny, {}, true).refused_at_accept({}, ip("8.8.8.8"), 443, {}));
}

TEST(EgressMatcher, SyntheticAddressesAreNotTheDenySet) {
  EgressPolicy policy{.mode = EgressMode::restricted};
  policy.dns = EgressDns::synthetic;
  const EgressMatcher m(policy);
  const std::vector<std::string> pins{"a.com"};
  EXPECT_FALSE(m.refused_at_accept({}, ip("198.18.0.5"), 443, pins));
  EXPECT_FALSE(m.refused_at_accept({}, ip("fd53:5041:4345:1::5"), 443, pins));
  EXPECT_TRUE(m.refused_at_accept({}, ip("198.18.0.5"), 443, {})) << "nobody was told this one";
  EXPECT_TRUE(m.refused_at_accept({}, ip("198.20.0.5"), 443, pins) == std::nullopt) << "public";
  EXPECT_TRUE(m.refused_at_accept({}, ip("10.0.0.5"), 443, pins));
  EXPECT_TRUE(restricted({}).refused_at_accept({}, ip("198.18.0.5"), 443, pins))
      << "in pinned mode it is private";
  EXPECT_FALSE(m.dialable({}, ip("198.18.0.5"), 443, "a.com").allowed);
}

TEST(EgressMatcher, KnowsWhetherNamesMatter) {
  EXPECT_FALSE(matcher(EgressMode::allow_all, {}, {"8.8.8.8"}).needs_names());
  EXPECT_TRUE(matcher(EgressMode::allow_all, {}, {"a.com"}).needs_names());
  EXPECT_TRUE(restricted({"*"}).needs_names());
}

TEST(EgressReason, HasOneWordEach) {
  for (std::size_t i = 0; i < egress_reasons; ++i) {
    const auto reason = static_cast<EgressReason>(i);
    EXPECT_EQ(egress_reason_from(to_string(reason)), reason);
    EXPECT_FALSE(explain(reason).empty());
    EXPECT_FALSE(explain(reason).ends_with('.'));
  }
  EXPECT_EQ(egress_reason_from("nothing"), std::nullopt);
}

}  // namespace
}  // namespace space

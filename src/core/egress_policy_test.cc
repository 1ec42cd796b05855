#include "core/egress_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace space {
namespace {

using ::testing::HasSubstr;

Result<EgressPolicy> parse(std::string_view text, EgressRights rights = {}) {
  auto object = parse_json_object(text, "policy");
  if (!object) return std::unexpected(std::move(object).error());
  return parse_egress_policy(*object, rights);
}

std::string refusal(std::string_view text, EgressRights rights = {}) {
  const auto policy = parse(text, rights);
  EXPECT_FALSE(policy) << text;
  return policy ? "" : policy.error().message;
}

void expect_taken(std::string_view text, EgressRights rights = {}) {
  const auto policy = parse(text, rights);
  EXPECT_TRUE(policy) << text << ": " << (policy ? "" : policy.error().message);
}

constexpr EgressRights admin{.may_internal = true, .force = false};

TEST(EgressPolicy, ReadsAllOfIt) {
  const auto policy = parse(R"({"mode":"restricted","allow":["Example.com.",
      {"host":"*.example.com","ports":["8000-8999",443,444],"proto":"tls"},
      {"cidr":"8.8.8.0/24","ports":[53]},
      {"host":"api.example.com","proto":"http","methods":["POST","GET"],"paths":["/v1/*"],"inspect":false}],
      "deny":["8.8.8.8"],"internal":[{"host":"intern.example.com"},"10.0.0.0/8:5432"],
      "allow_first":false,"pinned":false,"dns":{"mode":"synthetic"},
      "limits":{"conns":10,"new_conns_per_s":5,"bytes_per_s":1000,"dns_qps":7,"bytes_total":5000000000}})",
                            admin);
  ASSERT_TRUE(policy) << policy.error().message;
  EXPECT_EQ(policy->mode, EgressMode::restricted);
  ASSERT_EQ(policy->allow.size(), 4u);
  EXPECT_EQ(policy->allow[0].text(), "example.com");
  EXPECT_EQ(policy->allow[1].text(), "*.example.com:443-444,8000-8999 tls");
  EXPECT_EQ(policy->allow[3].text(), "api.example.com http GET,POST /v1/*");
  EXPECT_EQ(policy->internal[1].text(), "10.0.0.0/8:5432");
  EXPECT_FALSE(policy->pinned);
  EXPECT_EQ(policy->dns, EgressDns::synthetic);
  EXPECT_EQ(policy->limits, (EgressLimits{10, 5, 1000, 7, 5'000'000'000}));
  EXPECT_EQ(parse(to_text(to_json(*policy)), admin), *policy);
}

TEST(EgressPolicy, DefaultsAreLeftOut) {
  EXPECT_EQ(to_text(to_json(EgressPolicy{})), R"({"mode":"deny_all"})");
  EXPECT_EQ(to_text(to_json(*parse(R"({"mode":"allow_all","limits":{"conns":1024},"pinned":true})"))),
            R"({"mode":"allow_all"})");
}

TEST(EgressPolicy, WhatItDoesNotKnowIsRefused) {
  EXPECT_THAT(refusal(R"({})"), HasSubstr("'mode' is missing"));
  EXPECT_THAT(refusal(R"({"mode":"open"})"), HasSubstr("not 'open'"));
  EXPECT_THAT(refusal(R"({"mode":"restricted","alow":[]})"), HasSubstr("no member \"alow\""));
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":[{"host":"a.com","port":1}]})"),
              HasSubstr("allow[0]: a rule has no member \"port\""));
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":[{"host":"a.com","inspect":true}]})"),
              HasSubstr("interception is not there yet"));
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":[{"host":"a.com","cidr":"8.8.8.8"}]})"),
              HasSubstr("either \"host\" or \"cidr\""));
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":[{"ports":[80]}]})"), HasSubstr("either"));
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":[5]})"), HasSubstr("a rule is a string like"));
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":["a.com udp"]})"), HasSubstr("'tls', 'http' or 'tcp'"));
  EXPECT_THAT(refusal(R"({"mode":"restricted","dns":{"mode":"open"}})"), HasSubstr("dns.mode"));
  EXPECT_THAT(refusal(R"({"mode":"restricted","limits":{"conns":0}})"), HasSubstr("'conns' must be between"));
  expect_taken(R"({"mode":"restricted","limits":{"conns":1},"allow":null})");
}

TEST(EgressPolicy, PortsAreNumbersAndRanges) {
  const auto ports = [](std::string_view json) {
    return parse(fmt::format(R"({{"mode":"restricted","allow":[{{"host":"a.com","ports":{}}}]}})", json));
  };
  EXPECT_EQ(ports(R"([80,"81","83-84"])")->allow[0].ports, (std::vector<PortRange>{{80, 81}, {83, 84}}));
  EXPECT_EQ(ports(R"([65535,1])")->allow[0].ports, (std::vector<PortRange>{{1, 1}, {65535, 65535}}));
  for (const std::string_view bad : {"[0]", "[65536]", "[-1]", "[80.5]", R"(["80-"])", R"(["http"])",
                                     R"(["080"])", "[]", R"(["1-2-3"])", R"([" 80"])"})
    EXPECT_FALSE(ports(bad)) << bad;
  EXPECT_THAT(ports(R"(["90-80"])").error().message, HasSubstr("write '80-90'"));
}

TEST(EgressRule, TextIsReadAndWritten) {
  for (const std::string_view text :
       {"example.com", "*.example.com:443", "+.example.com:22,80-90 tcp", "*", "8.8.8.0/24", "8.8.8.8:53",
        "2606:4700::/32", "[2606:4700::/32]:443,8443 tls", "[2606:4700::1]:22"}) {
    const auto rule = parse_egress_rule(text);
    ASSERT_TRUE(rule) << text << rule.error().message;
    EXPECT_EQ(rule->text(), text);
  }
  EXPECT_EQ(parse_egress_rule("[2606:4700::1]")->text(), "2606:4700::1");
  EXPECT_THAT(parse_egress_rule("https://example.com/x").error().message, HasSubstr("write 'example.com'"));
  EXPECT_THAT(parse_egress_rule("example.com/x").error().message, HasSubstr("write 'example.com'"));
  EXPECT_THAT(parse_egress_rule("10.1.2.3/8:80").error().message, HasSubstr("write '10.0.0.0/8'"));
  for (const std::string_view bad :
       {"", ":80", "a.com:", "a.com:0", "a.com:80,", "a.com 80", "127.1", "10/8", "[::1", "a b"})
    EXPECT_FALSE(parse_egress_rule(bad)) << bad;
}

TEST(EgressPolicy, TooBroadIsRefused) {
  for (const std::string_view host : {"*.com", "+.co.uk", "*.nosuchtopleveldomain"}) {
    const std::string text = fmt::format(R"({{"mode":"restricted","allow":["{}"]}})", host);
    EXPECT_THAT(refusal(text), HasSubstr("is too broad"));
    expect_taken(text, {.may_internal = false, .force = true});
    expect_taken(fmt::format(R"({{"mode":"allow_all","deny":["{}"]}})", host));
  }
  expect_taken(R"({"mode":"restricted","allow":["*.example.com","*","com","*.example.co.uk"]})");
}

TEST(EgressPolicy, TheDenySetIsNotForRules) {
  for (const std::string_view block : {"10.0.0.0/8", "127.0.0.1", "169.254.169.254", "fd00::/8", "::1"}) {
    EXPECT_THAT(refusal(fmt::format(R"({{"mode":"restricted","allow":["{}"]}})", block)),
                HasSubstr("closed to every"));
    expect_taken(fmt::format(R"({{"mode":"allow_all","deny":["{}"]}})", block));
  }
  expect_taken(
      R"({"mode":"restricted","allow":["0.0.0.0/0","::/0","11.0.0.0/8"]})");  // case 61: deny set wins
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":["localhost"]})"), HasSubstr("the machine itself"));
  expect_taken(R"({"mode":"restricted","allow":["localhost.example.com"]})");
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":["10.1.2.3/8"]})"), HasSubstr("write '10.0.0.0/8'"));
}

TEST(EgressPolicy, InternalIsForAdministrators) {
  const std::string_view text = R"({"mode":"restricted","allow":["10.1.0.0/16"],"internal":["10.0.0.0/8"]})";
  const auto refused = parse(text);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::permission_denied);
  expect_taken(text, admin);
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":["10.1.0.0/16"],"internal":["10.2.0.0/16"]})", admin),
              HasSubstr("closed to every"));
  for (const std::string_view never :
       {"127.0.0.1", "169.254.0.0/16", "fe80::/10", "224.0.0.0/8", "100.100.100.200"})
    EXPECT_THAT(refusal(fmt::format(R"({{"mode":"restricted","internal":["{}"]}})", never), admin),
                HasSubstr("which nothing opens"));
  EXPECT_THAT(refusal(R"({"mode":"restricted","internal":["*"]})", admin), HasSubstr("name the hosts"));
}

TEST(EgressPolicy, WhatMeansNothingIsRefused) {
  EXPECT_THAT(refusal(R"({"mode":"allow_all","allow":["a.com"]})"), HasSubstr("write mode restricted"));
  expect_taken(R"({"mode":"allow_all","allow":["a.com:25"]})");
  expect_taken(R"({"mode":"allow_all","allow":["8.8.8.8"],"deny":["8.8.8.0/24"],"allow_first":true})");
  EXPECT_THAT(refusal(R"({"mode":"deny_all","allow":["a.com"]})"),
              HasSubstr("means nothing in mode deny_all"));
  expect_taken(R"({"mode":"deny_all"})");
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":["a.com tcp"]})"), HasSubstr("write 'a.com:22 tcp'"));
  expect_taken(R"({"mode":"restricted","allow":["a.com:22 tcp","8.8.8.8 tcp"]})");
}

TEST(EgressPolicy, ContradictionsAreRefused) {
  struct Case {
    std::string_view allow, deny;
    bool contradicts;
  };
  for (const Case& c : {
           Case{"a.b.com", "a.b.com", true},
           Case{"a.b.com", "a.b.com:443", false},
           Case{"a.b.com:443", "a.b.com:400-500", true},
           Case{"a.b.com", "*.b.com", true},
           Case{"a.b.com", "*.c.com", false},
           Case{"*.b.com", "a.b.com", false},
           Case{"+.b.com", "*.b.com", false},
           Case{"*.b.com", "+.b.com", true},
           Case{"a.b.com", "*", true},
           Case{"8.8.8.8", "8.8.8.0/24", true},
           Case{"8.8.8.0/24", "8.8.8.8", false},
           Case{"8.8.8.8:53", "8.8.8.0/24:53", true},
           Case{"8.8.8.8", "8.8.8.0/24:53", false},
           Case{"8.8.8.8", "*", false},
       }) {
    const std::string text =
        fmt::format(R"({{"mode":"restricted","allow":["{}"],"deny":["{}"]}})", c.allow, c.deny);
    if (c.contradicts)
      EXPECT_THAT(refusal(text), HasSubstr("contradicts deny rule")) << text;
    else
      expect_taken(text);
    expect_taken(fmt::format(R"({{"mode":"restricted","allow":["{}"],"deny":["{}"],"allow_first":true}})",
                             c.allow, c.deny));
  }
}

TEST(EgressPolicy, AmbiguousProtocolsAreRefused) {
  EXPECT_THAT(refusal(R"({"mode":"restricted","allow":["a.com:9000 tls","a.com:8999-9001 http"]})"),
              HasSubstr("port 9000 is tls and http"));
  expect_taken(
      R"({"mode":"restricted","allow":["a.com:9000 tls","a.com:9001 http","b.com:9000 http","a.com"]})");
}

TEST(EgressPolicy, RequestsAreOfPlainHttp) {
  const auto rule = [](std::string_view members) {
    return fmt::format(R"({{"mode":"restricted","allow":[{{"host":"a.com",{}}}]}})", members);
  };
  EXPECT_THAT(refusal(rule(R"("methods":["GET"])")), HasSubstr("only plain HTTP shows"));
  EXPECT_THAT(refusal(rule(R"("proto":"tls","paths":["/"])")), HasSubstr("only plain HTTP shows"));
  EXPECT_THAT(refusal(rule(R"("proto":"http","methods":["get"])")), HasSubstr("in capitals"));
  for (const std::string_view path : {"v1", "", "/a*b", "/a?b", "/a#b", "/a b"})
    EXPECT_THAT(refusal(rule(fmt::format(R"("proto":"http","paths":["{}"])", path))),
                HasSubstr("begins with '/'"));
  expect_taken(rule(R"("proto":"http","methods":["GET"],"paths":["/","/v1/*","/*"])"));
  EXPECT_THAT(refusal(R"({"mode":"allow_all","deny":[{"host":"a.com","proto":"tls"}]})"),
              HasSubstr("every protocol"));
}

TEST(EgressPolicy, SizesAreBounded) {
  const auto many = [](std::size_t count) {
    EgressPolicy policy{.mode = EgressMode::restricted};
    for (std::size_t i = 0; i < count; ++i)
      policy.allow.push_back(
          {.target = HostPattern{HostPattern::Kind::exact, fmt::format("h{}.example.com", i)}});
    return policy;
  };
  EXPECT_TRUE(check_egress_policy(many(10'000), {}));
  const auto refused = check_egress_policy(many(10'001), {});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("has 10001 rules; it may have 10000"));
  EgressPolicy ranges = many(400);
  for (EgressRule& rule : ranges.allow)
    for (std::uint16_t port = 1; port <= 50; ++port)
      rule.ports.push_back({static_cast<std::uint16_t>(2 * port), static_cast<std::uint16_t>(2 * port)});
  EXPECT_TRUE(check_egress_policy(ranges, {}));
  ranges.allow[0].ports.push_back({200, 200});
  EXPECT_FALSE(check_egress_policy(ranges, {}));
}

TEST(EgressPolicy, EqualRulesAreOne) {
  const auto policy =
      parse(R"({"mode":"restricted","allow":["A.com","a.com.","a.com:443",{"host":"a.com"}]})");
  ASSERT_TRUE(policy);
  EXPECT_EQ(policy->allow.size(), 2u);
  const auto paths = parse(R"({"mode":"restricted","allow":[{"host":"a.com","proto":"http","paths":["/a,/b"]},
                              {"host":"a.com","proto":"http","paths":["/a","/b"]}]})");
  ASSERT_TRUE(paths);
  EXPECT_EQ(paths->allow.size(), 2u) << "another rule, though its text is the same";
}

}  // namespace
}  // namespace space

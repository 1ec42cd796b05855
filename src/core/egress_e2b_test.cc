#include "core/egress_e2b.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/egress_matcher.h"

namespace space {
namespace {

using ::testing::HasSubstr;

Result<EgressPolicy> translated(std::string_view network, std::optional<bool> internet = {}) {
  const auto object = parse_json_object(network, "network");
  return egress_from_e2b(&*object, internet);
}

std::string shown(std::string_view network, std::optional<bool> internet = {}) {
  const auto policy = translated(network, internet);
  if (!policy) return policy.error().message;
  EXPECT_TRUE(policy->allow_first);
  EXPECT_FALSE(policy->pinned);
  std::string out(to_string(policy->mode));
  for (const EgressRule& rule : policy->allow) out += " +" + rule.text();
  for (const EgressRule& rule : policy->deny) out += " -" + rule.text();
  return out;
}

TEST(EgressE2b, TheDefaultIsOpen) {
  EXPECT_EQ(egress_from_e2b(nullptr, {})->mode, EgressMode::allow_all);
  EXPECT_EQ(egress_from_e2b(nullptr, true)->mode, EgressMode::allow_all);
  EXPECT_EQ(egress_from_e2b(nullptr, false)->mode, EgressMode::deny_all);
  EXPECT_EQ(shown("{}"), "allow_all");
}

TEST(EgressE2b, EachFormIsTranslated) {
  EXPECT_EQ(shown(R"({"denyOut":["0.0.0.0/0"]})"), "restricted");
  EXPECT_EQ(shown(R"({"denyOut":["::/0"]})"), "restricted");
  EXPECT_EQ(shown(R"({"denyOut":["8.8.8.8","1.1.1.0/24"]})"), "allow_all -8.8.8.8 -1.1.1.0/24");
  EXPECT_EQ(shown(R"({"allowOut":["8.8.8.8"],"denyOut":["8.8.8.0/24"]})"), "allow_all +8.8.8.8 -8.8.8.0/24");
  EXPECT_EQ(
      shown(R"({"allowOut":["Example.com","*.github.com","8.8.8.8"],"denyOut":["0.0.0.0/0","9.9.9.9"]})"),
      "restricted +example.com +*.github.com +8.8.8.8");
  EXPECT_EQ(shown(R"({"allowOut":["8.8.8.8","8.8.8.8"]})", false), "restricted +8.8.8.8");
  EXPECT_EQ(shown(R"({"allowOut":["example.com"]})", false), "restricted +example.com");
  EXPECT_EQ(shown(R"({"allowOut":["0.0.0.0/0"],"denyOut":["0.0.0.0/0"]})"), "allow_all") << "allow wins";
  EXPECT_EQ(shown(R"({"allowOut":["*.co.uk"],"denyOut":["0.0.0.0/0"]})"), "restricted +*.co.uk")
      << "as E2B takes it";
}

TEST(EgressE2b, WhatItMeansIsWhatE2bMeans) {
  const EgressMatcher open(*translated(R"({"allowOut":["8.8.8.8"],"denyOut":["8.8.8.0/24"]})"));
  const auto ip = [](std::string_view text) { return *IpAddress::parse(text); };
  EXPECT_TRUE(open.address(ip("8.8.8.8"), 443).allowed);
  EXPECT_FALSE(open.address(ip("8.8.8.9"), 443).allowed);
  EXPECT_TRUE(open.address(ip("9.9.9.9"), 443).allowed);
  const EgressMatcher closed(*translated(R"({"allowOut":["example.com"],"denyOut":["0.0.0.0/0"]})"));
  EXPECT_TRUE(closed.name("example.com", 443, EgressProtocol::tls).allowed);
  EXPECT_TRUE(closed.name("example.com", 80, EgressProtocol::http).allowed);
  EXPECT_FALSE(closed.name("example.com", 22, EgressProtocol::tcp).allowed);
  EXPECT_FALSE(closed.name("www.example.com", 443, EgressProtocol::tls).allowed);
  EXPECT_FALSE(closed.address(ip("9.9.9.9"), 443).allowed);
}

TEST(EgressE2b, RefusesInE2bsWords) {
  EXPECT_EQ(
      shown(R"({"allowOut":["example.com"]})"),
      "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all "
      "other traffic.");
  EXPECT_EQ(shown(R"({"denyOut":["example.com"]})"),
            "'network.denyOut' entry 'example.com' is not an IP address or CIDR");
  for (const std::string_view entry : {"*", "com", "exa mple.com", "+.example.com", "a.*.com"})
    EXPECT_THAT(shown(fmt::format(R"({{"allowOut":["{}"],"denyOut":["0.0.0.0/0"]}})", entry)),
                HasSubstr("is not an IP address, CIDR or domain"))
        << entry;
  EXPECT_THAT(shown(R"({"allowOut":["8.8.8.8/40"]})"), HasSubstr("'network.allowOut' entry '8.8.8.8/40'"));
  EXPECT_THAT(shown(R"({"denyOut":["10.1.2.3/8"]})"), HasSubstr("write '10.0.0.0/8'"));
  EXPECT_THAT(shown(R"({"allowOut":["10.0.0.5"]})"), HasSubstr("closed to every sandbox"));
  EXPECT_THAT(shown(R"({"allowOut":[5]})"), HasSubstr("must be an array of strings"));
  EXPECT_THAT(shown(R"({"allowOut":"8.8.8.8"})"), HasSubstr("must be an array"));
}

}  // namespace
}  // namespace space

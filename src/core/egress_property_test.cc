#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "core/cidr_index.h"
#include "core/egress_matcher.h"
#include "core/egress_reference.h"

namespace space {
namespace {

using reference::Sample;
using Octets = std::vector<std::uint8_t>;

Octets many_octets() {
  return *rc::gen::resize(600, rc::gen::arbitrary<Octets>());
}

RC_GTEST_PROP(EgressProperty, TheMatcherDecidesAsTheReferenceDoes, ()) {
  const Octets octets = many_octets();
  Sample sample(octets);
  const EgressMatcher matcher(sample.policy());
  do {
    const auto different = reference::disagreement(matcher, sample);
    if (different) RC_LOG() << to_text(to_json(matcher.policy())) << '\n' << *different;
    RC_ASSERT(!different);
  } while (!sample.empty());
}

// That the property above could fail: the matcher of another policy is found out.
TEST(EgressProperty, AMatcherOfAnotherPolicyIsFoundOut) {
  EgressPolicy restricted{.mode = EgressMode::restricted};
  restricted.allow.push_back(*parse_egress_rule("*.a.test"));
  EgressPolicy wider = restricted;
  wider.allow[0] = *parse_egress_rule("+.a.test");
  const EgressMatcher narrow(restricted);
  EXPECT_NE(narrow.name("a.test", 443, EgressProtocol::tls).allowed,
            reference::name(wider, "a.test", 443, EgressProtocol::tls).allowed);
  EXPECT_EQ(narrow.name("a.test", 443, EgressProtocol::tls).allowed,
            reference::name(restricted, "a.test", 443, EgressProtocol::tls).allowed);
}

// A policy that passes its checks is the same after a way through JSON text.
RC_GTEST_PROP(EgressProperty, APolicySurvivesItsJson, ()) {
  const Octets octets = many_octets();
  Sample sample(octets);
  const EgressPolicy policy = sample.policy();
  const EgressRights all{.may_internal = true, .force = true};
  const auto text = to_text(to_json(policy));
  const auto parsed = parse_egress_policy(*parse_json_object(text, "policy"), all);
  RC_ASSERT(parsed.has_value() == check_egress_policy(policy, all).has_value());
  if (!parsed) return;
  RC_ASSERT(to_text(to_json(*parsed)) == to_text(to_json(EgressMatcher(*parsed).policy())));
  const auto again = parse_egress_policy(to_json(*parsed), all);
  RC_ASSERT(again && *again == *parsed);
}

// Whatever is allowed is also told by DNS: a rule never allows what a sandbox cannot look up.
RC_GTEST_PROP(EgressProperty, WhatIsAllowedMayBeResolved, ()) {
  const Octets octets = many_octets();
  Sample sample(octets);
  const EgressMatcher matcher(sample.policy());
  const std::string name = sample.name();
  const bool allowed = matcher.name(name, sample.port(), sample.protocol()).allowed;
  if (allowed) RC_ASSERT(matcher.name_may_resolve(name));
}

// A deny rule more never allows more.
RC_GTEST_PROP(EgressProperty, DenyingMoreAllowsNothing, ()) {
  const Octets octets = many_octets();
  Sample sample(octets);
  EgressPolicy policy = sample.policy();
  EgressPolicy more = policy;
  const EgressPolicy other = sample.policy();
  more.deny.insert(more.deny.end(), other.deny.begin(), other.deny.end());
  const EgressMatcher before(std::move(policy)), after(std::move(more));
  const std::string name = sample.name();
  const IpAddress to = sample.address();
  const std::uint16_t port = sample.port();
  const EgressProtocol protocol = sample.protocol();
  RC_ASSERT(before.name(name, port, protocol).allowed || !after.name(name, port, protocol).allowed);
  RC_ASSERT(before.address(to, port, protocol).allowed || !after.address(to, port, protocol).allowed);
  RC_ASSERT(before.resolve(name).allowed || !after.resolve(name).allowed);
}

IpAddress some_address() {
  const auto high = *rc::gen::arbitrary<std::uint64_t>(), low = *rc::gen::arbitrary<std::uint64_t>();
  return *rc::gen::arbitrary<bool>() ? IpAddress::v6(high, low)
                                     : IpAddress::v4(static_cast<std::uint32_t>(low));
}

RC_GTEST_PROP(CidrIndex, FindsWhatLookingAtEachBlockFinds, ()) {
  std::vector<Cidr> blocks;
  std::vector<IpAddress> asked{IpAddress::v4(0), IpAddress::v4(0xffffffff), IpAddress::v6(0, 0),
                               IpAddress::v6(~std::uint64_t{0}, ~std::uint64_t{0})};
  for (int left = *rc::gen::inRange(0, 20); left > 0; --left) {
    const Cidr block = Cidr::around(some_address(), *rc::gen::inRange(0, 129));
    blocks.push_back(block);
    blocks.push_back(Cidr::around(block.first(), *rc::gen::inRange(0, 129)));
    asked.insert(asked.end(), {block.first(), block.last(), some_address()});
  }
  const CidrIndex index(blocks);
  for (const IpAddress& address : asked) {
    std::vector<Cidr> expected, found;
    for (const Cidr& block : index.blocks())
      if (block.contains(address)) expected.insert(expected.begin(), block);
    for (auto at = index.smallest(address); at != CidrIndex::none; at = index.outside(at))
      found.push_back(index.blocks()[at]);
    RC_ASSERT(found == expected);
  }
  for (const Cidr& block : blocks) RC_ASSERT(index.smallest_over(block) == index.find(block));
}

RC_GTEST_PROP(IpAddress, TextIsReadAsTheSameAddress, ()) {
  const IpAddress address = some_address();
  RC_ASSERT(IpAddress::parse(address.text()) == address);
  RC_ASSERT(IpAddress::from_bytes(address.bytes()) == address);
  const SocketAddress socket = to_sockaddr(address, 1);
  RC_ASSERT(IpAddress::from_sockaddr(socket.get(), socket.size) == address);
}

RC_GTEST_PROP(HostName, ACanonicalNameIsItsOwnCanonicalForm, ()) {
  const auto alphabet = rc::gen::elementOf(std::string("abzXN019-_..*+[]:%@/\\ \t") + '\0' + "\xc3\xbc\xdf");
  const auto name = canonical_host_name(*rc::gen::container<std::string>(alphabet));
  if (!name) return;
  const auto again = canonical_host_name(*name), dotted = canonical_host_name(*name + ".");
  RC_ASSERT(again && *again == *name);
  RC_ASSERT(dotted && *dotted == *name);
  RC_ASSERT(!canonical_host_name(*name + ".."));
  RC_ASSERT(!IpAddress::parse(*name));
}

}  // namespace
}  // namespace space

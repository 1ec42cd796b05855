#include "core/platform_deny.h"

#include <gtest/gtest.h>

namespace space {
namespace {

IpAddress ip(std::string_view text) {
  return *IpAddress::parse(text);
}

TEST(PlatformDeny, EachBlockEndsWhereItEnds) {
  struct Case {
    std::string_view before, first, last, after;  // "": the end of the family, or a neighbour is denied too
  };
  const PlatformDeny deny;
  for (const Case& c : {
           Case{"", "0.0.0.0", "0.255.255.255", "1.0.0.0"},
           Case{"9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"},
           Case{"100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"},
           Case{"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"},
           Case{"169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"},
           Case{"172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"},
           Case{"191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"},
           Case{"192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"},
           Case{"192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"},
           Case{"192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"},
           Case{"198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"},
           Case{"198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"},
           Case{"203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"},
           Case{"223.255.255.255", "224.0.0.0", "255.255.255.255", ""},
           Case{"168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17"},
           Case{"ff:ffff::", "100::", "100::ffff:ffff:ffff:ffff", "100:0:0:1::"},
           Case{"2000:ffff::", "2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "2001:1::"},
           Case{"2001:db7::", "2001:db8::", "2001:db8:ffff::", "2001:db9::"},
           Case{"fbff::", "fc00::", "fdff:ffff::", "fe00::"},
           Case{"fe7f::", "fe80::", "feff::", ""},
           Case{"", "ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", ""},
       }) {
    EXPECT_TRUE(deny.hit(ip(c.first))) << c.first;
    EXPECT_TRUE(deny.hit(ip(c.last))) << c.last;
    if (!c.before.empty()) EXPECT_FALSE(deny.hit(ip(c.before))) << c.before;
    if (!c.after.empty()) EXPECT_FALSE(deny.hit(ip(c.after))) << c.after;
  }
}

TEST(PlatformDeny, ThePrivateIsPrivateInEveryNotation) {  // cases 3, 31
  const PlatformDeny deny;
  for (const std::string_view text :
       {"::ffff:10.0.0.5", "64:ff9b::a00:5", "2002:a00:5::", "::10.0.0.5", "64:ff9b:1::a00:5",
        "64:ff9b:1:a00:0:500::", "::ffff:0:10.0.0.5", "2400::5efe:10.0.0.5", "2400::200:5efe:127.0.0.1",
        "::ffff:127.0.0.1", "::1", "::", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::", "::ffff:0.0.0.0"})
    EXPECT_TRUE(deny.hit(ip(text))) << text;
  // The same notations of a public address.
  for (const std::string_view text : {"::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::", "::8.8.8.8",
                                      "64:ff9b:1:808:8:800:808:808", "2400::5efe:8.8.8.8", "2606:4700::1111"})
    EXPECT_FALSE(deny.hit(ip(text))) << text;
}

TEST(PlatformDeny, MetadataServicesAreHit) {
  const PlatformDeny deny;
  for (const std::string_view text : {"169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254",
                                      "fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42"}) {
    EXPECT_TRUE(deny.hit(ip(text))) << text;
    EXPECT_FALSE(deny.may_open(ip(text), true)) << text;
  }
  EXPECT_TRUE(deny.may_open(ip("fd00:1::1"), false)) << "a private address may be opened";
}

TEST(PlatformDeny, TheNodesOwnAddressesAreHit) {  // case 4
  const PlatformDeny deny({*Cidr::parse("8.8.4.4"), *Cidr::parse("2606:4700::/64")});
  EXPECT_TRUE(deny.hit(ip("8.8.4.4")));
  EXPECT_TRUE(deny.hit(ip("::ffff:8.8.4.4")));
  EXPECT_TRUE(deny.hit(ip("2606:4700::5")));
  EXPECT_FALSE(deny.hit(ip("8.8.4.5")));
  EXPECT_FALSE(PlatformDeny().hit(ip("8.8.4.4")));
  EXPECT_FALSE(deny.may_open(ip("8.8.4.4"), false)) << "a block around it does not open the node";
  EXPECT_TRUE(deny.may_open(ip("8.8.4.4"), true));
  EXPECT_TRUE(deny.may_open(ip("10.0.0.1"), false));
  for (const std::string_view never :
       {"127.0.0.1", "0.0.0.0", "::1", "fe80::1", "224.0.0.1", "::ffff:127.0.0.1"})
    EXPECT_FALSE(deny.may_open(ip(never), true)) << never;
}

TEST(PlatformDeny, KnowsWhatABlockIsIn) {
  const auto covering = [](std::string_view text) {
    const auto block = PlatformDeny::covering(*Cidr::parse(text));
    return block ? block->text() : "";
  };
  EXPECT_EQ(covering("10.1.0.0/16"), "10.0.0.0/8");
  EXPECT_EQ(covering("10.0.0.0/8"), "10.0.0.0/8");
  EXPECT_EQ(covering("8.0.0.0/6"), "") << "10.0.0.0/8 is only a part of it";
  EXPECT_EQ(covering("fd00::/8"), "fc00::/7");
  EXPECT_EQ(covering("8.8.8.8"), "");
  EXPECT_TRUE(PlatformDeny::never_openable(*Cidr::parse("127.0.0.0/16")));
  EXPECT_FALSE(PlatformDeny::never_openable(*Cidr::parse("10.0.0.0/16")));
}

}  // namespace
}  // namespace space

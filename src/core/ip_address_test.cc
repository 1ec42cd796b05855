#include "core/ip_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>

namespace space {
namespace {

IpAddress ip(std::string_view text) {
  const auto address = IpAddress::parse(text);
  EXPECT_TRUE(address) << text;
  return address.value_or(IpAddress());
}

Cidr block(std::string_view text) {
  const auto parsed = Cidr::parse(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(Cidr());
}

TEST(IpAddress, ReadsOnlyTheStrictForms) {
  for (const std::string_view good :
       {"0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "::1", "2001:db8::5", "::ffff:10.0.0.5", "fe80::1"})
    EXPECT_TRUE(IpAddress::parse(good)) << good;
  for (const std::string_view bad :
       {"", "127.1", "127.0.0", "127.0.0.1.", "0127.0.0.1", "0x7f.0.0.1", "2130706433", "256.0.0.1",
        "1.2.3.4 ", " 1.2.3.4", "[::1]", "fe80::1%eth0", "::ffff:0x7f.1", ":::", "1:2:3:4:5:6:7:8:9",
        "1.2.3.4/32"})
    EXPECT_FALSE(IpAddress::parse(bad)) << bad;
  EXPECT_FALSE(IpAddress::parse(std::string_view("1.2.3.4\0", 8)));
}

TEST(IpAddress, IsOrderedAndWritten) {
  EXPECT_LT(ip("9.0.0.0"), ip("10.0.0.0"));
  EXPECT_LT(ip("255.255.255.255"), ip("::")) << "IPv4 is before IPv6";
  EXPECT_LT(ip("::ffff"), ip("1::"));
  EXPECT_EQ(ip("2001:DB8:0:0::5").text(), "2001:db8::5");
  EXPECT_EQ(to_text(ip("1.2.3.4"), 80), "1.2.3.4:80");
  EXPECT_EQ(to_text(ip("2001:db8::5"), 443), "[2001:db8::5]:443");
}

TEST(IpAddress, GoesThroughSocketAddresses) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(0x0102'0304);
  const auto* raw = reinterpret_cast<const sockaddr*>(&in);
  EXPECT_EQ(IpAddress::from_sockaddr(raw, sizeof in), ip("1.2.3.4"));
  EXPECT_FALSE(IpAddress::from_sockaddr(raw, sizeof in - 1)) << "cut short";
  EXPECT_FALSE(IpAddress::from_sockaddr(nullptr, 0));
  in.sin_family = AF_UNIX;
  EXPECT_FALSE(IpAddress::from_sockaddr(raw, sizeof in));
  const SocketAddress v6 = to_sockaddr(ip("2001:db8::5"), 443);
  EXPECT_EQ(v6.size, sizeof(sockaddr_in6));
  EXPECT_EQ(reinterpret_cast<const sockaddr_in6*>(v6.get())->sin6_port, htons(443));
  EXPECT_FALSE(IpAddress::from_bytes(std::vector<std::byte>(5)));
}

TEST(Cidr, HoldsWhatIsBetweenItsEnds) {
  struct Case {
    std::string_view block, before, first, last, after;
  };
  for (const Case& c :
       {Case{"1.2.3.4/32", "1.2.3.3", "1.2.3.4", "1.2.3.4", "1.2.3.5"},
        Case{"10.0.0.0/8", "9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"},
        Case{"198.18.0.0/15", "198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"},
        Case{"fc00::/7", "fbff:ffff::", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "fe00::"},
        Case{"2001:db8::/65", "2001:db7:ffff::", "2001:db8::", "2001:db8::7fff:ffff:ffff:ffff",
             "2001:db8::8000:0:0:0"}}) {
    EXPECT_FALSE(block(c.block).contains(ip(c.before))) << c.block;
    EXPECT_TRUE(block(c.block).contains(ip(c.first))) << c.block;
    EXPECT_TRUE(block(c.block).contains(ip(c.last))) << c.block;
    EXPECT_FALSE(block(c.block).contains(ip(c.after))) << c.block;
    EXPECT_EQ(block(c.block).last(), ip(c.last));
  }
  EXPECT_TRUE(block("0.0.0.0/0").contains(ip("255.255.255.255")));
  EXPECT_FALSE(block("0.0.0.0/0").contains(ip("::"))) << "of the other family";
  EXPECT_TRUE(block("::/0").contains(ip("ffff::")));
  EXPECT_FALSE(block("::/0").contains(ip("1.2.3.4")));
}

TEST(Cidr, SaysTheNearestValidForm) {
  const auto message = [](std::string_view text) {
    const auto parsed = Cidr::parse(text);
    EXPECT_FALSE(parsed) << text;
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_EQ(message("10.1.2.3/8"),
            "'10.1.2.3/8' has bits set behind its prefix; write '10.0.0.0/8' or '10.1.2.3'");
  EXPECT_EQ(block("10.0.0.0/8").text(), "10.0.0.0/8");
  EXPECT_EQ(message("::ffff:1.2.3.0/120"),
            "'::ffff:1.2.3.0/120' is IPv4 written as IPv6; write '1.2.3.0/24'");
  EXPECT_EQ(message("1.2.3.4/33"),
            "'1.2.3.4/33' has no prefix length of 0 to 32; for one address write '1.2.3.4'");
  for (const std::string_view bad : {"1.2.3.4/", "1.2.3.4/-1", "1.2.3.4/08", "1.2.3.4/8/8", "10/8", "::/129",
                                     "/8", "1.2.3.0/255.255.255.0"})
    message(bad);
  EXPECT_EQ(block("1.2.3.4/32").text(), "1.2.3.4");
  EXPECT_EQ(block("2001:db8::1").text(), "2001:db8::1");
  EXPECT_LT(block("10.0.0.0/8"), block("10.0.0.0/9")) << "the larger one first";
}

TEST(EmbeddedV4, FindsTheAddressInEveryNotation) {
  const auto has = [](std::string_view text, std::string_view inner) {
    const EmbeddedV4 found(ip(text));
    return std::ranges::find(found, ip(inner)) != found.end();
  };
  for (const std::string_view text :
       {"::ffff:10.0.0.5", "::10.0.0.5", "::ffff:0:10.0.0.5", "64:ff9b::a00:5", "64:ff9b:1::a00:5",
        "64:ff9b:1:a00:0:500::", "2002:a00:5::", "2002:a00:5:1::9", "2001:0:a00:5::1",
        "2001:0:102:304:0:0:f5ff:fffa", "2001:db8::5efe:10.0.0.5", "fe80::200:5efe:10.0.0.5"})
    EXPECT_TRUE(has(text, "10.0.0.5")) << text;
  for (const std::string_view text : {"2001:db8::10.0.0.5", "64:ff9b:2::a00:5", "2003:a00:5::",
                                      "::fffe:10.0.0.5", "2001:db8::5eff:10.0.0.5", "10.0.0.5"})
    EXPECT_TRUE(EmbeddedV4(ip(text)).empty()) << text;
}

}  // namespace
}  // namespace space

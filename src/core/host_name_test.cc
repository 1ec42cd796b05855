#include "core/host_name.h"

#include <gtest/gtest.h>

namespace space {
namespace {

using namespace std::string_view_literals;

std::string canonical(std::string_view text) {
  const auto name = canonical_host_name(text);
  return name ? *name : "refused: " + name.error().message;
}

TEST(HostName, AllSpellingsOfANameAreOne) {  // case 16
  for (const std::string_view text : {"example.com", "EXAMPLE.com", "example.com.", "eXaMpLe.CoM."})
    EXPECT_EQ(canonical(text), "example.com") << text;
  for (const std::string_view text :
       {"bücher.example", "BÜCHER.example", "xn--bcher-kva.example", "XN--BCHER-KVA.Example."})
    EXPECT_EQ(canonical(text), "xn--bcher-kva.example") << text;
  EXPECT_EQ(canonical("faß.de"), "xn--fa-hia.de") << "not transitional: another name than fass.de";
  EXPECT_EQ(canonical("_dmarc.xn--bcher-kva.example"), "_dmarc.xn--bcher-kva.example");
  EXPECT_EQ(canonical("r3---sn-abc.example"), "r3---sn-abc.example") << "a name that exists, and no A-label";
}

TEST(HostName, NumbersAreNoNames) {  // case 8
  for (const std::string_view text :
       {"2130706433", "0x7f.1", "0177.0.0.1", "127.1", "127.0.0.1", "1.2.3.4.", "0x7f000001", "0x", "a.0x7F",
        "a.1", "[::1]", "[fe80::1%25eth0]", "::1", "１２７.1"})
    EXPECT_FALSE(canonical_host_name(text)) << text;
  for (const std::string_view text : {"1.com", "0x7f.com", "127.0.0.1.example", "x1", "1x", "0xg", "1-2"})
    EXPECT_TRUE(canonical_host_name(text)) << text;
}

TEST(HostName, WhatIsNoNameIsRefused) {  // cases 17, 59
  for (const std::string_view text : {""sv,
                                      "."sv,
                                      ".."sv,
                                      ".example.com"sv,
                                      "a..b"sv,
                                      "example.com.."sv,
                                      "allowed.com\0.evil.com"sv,
                                      "\0"sv,
                                      "allowed.com%00.evil.com"sv,
                                      "a b.com"sv,
                                      "a.com "sv,
                                      "\ta.com"sv,
                                      "a.com\n"sv,
                                      "user@a.com"sv,
                                      "a.com/x"sv,
                                      "a.com:80"sv,
                                      "a\\b.com"sv,
                                      "*.a.com"sv,
                                      "a.*"sv,
                                      "a\x7f.com"sv,
                                      "a\xff.com"sv,
                                      "≠.com"sv,
                                      "a。com"sv,
                                      "\u00ad.com"sv,
                                      "xn--.com"sv,
                                      "xn--a.com"sv,
                                      "xn--example-.com"sv,
                                      "http://a.com"sv})
    EXPECT_FALSE(canonical_host_name(text)) << quoted(text);
  const std::string label(63, 'a');
  EXPECT_TRUE(canonical_host_name(label + ".com"));
  EXPECT_FALSE(canonical_host_name(label + "a.com"));
  const std::string longest = label + "." + label + "." + label + "." + std::string(61, 'b');
  EXPECT_EQ(canonical(longest).size(), 253u);
  EXPECT_TRUE(canonical_host_name(longest + "."));
  EXPECT_FALSE(canonical_host_name(longest + "b"));
  EXPECT_FALSE(canonical_host_name(std::string(300, 'a')));
  EXPECT_FALSE(canonical_host_name(std::string(1 << 20, 'a')));
}

TEST(HostName, OnlyAsciiIsSent) {
  EXPECT_TRUE(wire_host_name("xn--bcher-kva.example"));
  EXPECT_TRUE(canonical_host_name("bücher.example"));
  EXPECT_FALSE(wire_host_name("bücher.example"));
}

TEST(HostName, LookalikesAreOtherNames) {  // case 59
  const HostPattern allowed = *HostPattern::parse("allowed.com"),
                    below = *HostPattern::parse("*.allowed.com");
  // Cyrillic а and е; digit one for l.
  for (const std::string_view text : {"аllowed.com", "allowеd.com", "al1owed.com", "allowed.com.evil.com",
                                      "xallowed.com", "allowed.co", "llowed.com"}) {
    const auto name = canonical_host_name(text);
    ASSERT_TRUE(name) << text;
    EXPECT_FALSE(allowed.matches(*name)) << text;
    EXPECT_FALSE(below.matches(*name)) << text;
  }
  EXPECT_TRUE(allowed.matches(canonical("ALLOWED.com.")));
}

TEST(HostPattern, AWildcardIsBelowAndNotTheApex) {  // case 60
  const HostPattern below = *HostPattern::parse("*.allowed.com");
  const HostPattern both = *HostPattern::parse("+.Allowed.com.");
  const HostPattern any = *HostPattern::parse("*");
  struct Case {
    std::string_view name;
    bool below, both;
  };
  for (const Case& c : {Case{"a.b.allowed.com", true, true}, Case{"a.allowed.com", true, true},
                        Case{"allowed.com", false, true}, Case{"xallowed.com", false, false},
                        Case{"com", false, false}, Case{"a.allowed.com.evil", false, false}}) {
    EXPECT_EQ(below.matches(c.name), c.below) << c.name;
    EXPECT_EQ(both.matches(c.name), c.both) << c.name;
    EXPECT_TRUE(any.matches(c.name));
  }
  for (const std::string_view sent : {".allowed.com", "*.allowed.com"})
    EXPECT_FALSE(wire_host_name(sent)) << sent << " as a server name";
  EXPECT_EQ(both.text(), "+.allowed.com");
}

TEST(HostPattern, SaysTheNearestValidForm) {
  const auto message = [](std::string_view text) {
    const auto parsed = HostPattern::parse(text);
    EXPECT_FALSE(parsed) << text;
    return parsed ? "" : parsed.error().message;
  };
  EXPECT_TRUE(message("api*.example.com").ends_with("write '*.example.com'"));
  EXPECT_TRUE(message("*example.com").ends_with("write '*.example.com'"));
  EXPECT_TRUE(message("x*.com").ends_with("as in '*.example.com'")) << "'*.com' would be too broad";
  EXPECT_TRUE(message("a.*.example.com").ends_with("write '*.example.com'"));
  EXPECT_TRUE(message(".example.com").ends_with("write '*.example.com'"));
  EXPECT_TRUE(message("https://Example.com:8443/x?y").ends_with("write 'example.com'"));
  EXPECT_TRUE(message("10.0.0.1").ends_with("write it as \"cidr\""));
  EXPECT_TRUE(message("[::1]").ends_with("write it as \"cidr\""));
  message("**");
  message("*.");
  message("+.*");
  message("");
}

TEST(HostPattern, CoversWhatItMatchesAllOf) {
  const auto pattern = [](std::string_view text) { return *HostPattern::parse(text); };
  struct Case {
    std::string_view wider, narrower;
    bool covers;
  };
  for (const Case& c :
       {Case{"*", "*.a.b", true}, Case{"*.a.b", "*", false}, Case{"a.b", "a.b", true},
        Case{"a.b", "*.a.b", false}, Case{"*.a.b", "*.a.b", true}, Case{"*.a.b", "+.a.b", false},
        Case{"*.a.b", "a.b", false}, Case{"*.a.b", "+.x.a.b", true}, Case{"+.a.b", "a.b", true},
        Case{"+.a.b", "*.a.b", true}, Case{"+.a.b", "+.a.b", true}, Case{"+.a.b", "xa.b", false}})
    EXPECT_EQ(pattern(c.wider).covers(pattern(c.narrower)), c.covers) << c.wider << " " << c.narrower;
}

TEST(Authority, IsANameOrAnAddressAndAPort) {  // case 16
  const auto shown = [](std::string_view text) -> std::string {
    const auto parsed = parse_authority(text);
    if (!parsed) return "refused";
    return parsed->host.text() + "|" + (parsed->port ? std::to_string(*parsed->port) : "");
  };
  EXPECT_EQ(shown("Example.COM"), "example.com|");
  EXPECT_EQ(shown("example.com.:443"), "example.com|443");
  EXPECT_EQ(shown("1.2.3.4:80"), "1.2.3.4|80");
  EXPECT_EQ(shown("[2001:db8::1]"), "[2001:db8::1]|");
  EXPECT_EQ(shown("[2001:db8::1]:8080"), "[2001:db8::1]|8080");
  for (const std::string_view bad :
       {"", ":80", "a.com:", "a.com:0", "a.com:65536", "a.com:080808", "a.com:+1", "a.com:80:80",
        "user@a.com", "a.com\t", "a.com ", "a.com:80 ", "::1", "[::1", "[::1]80", "[1.2.3.4]",
        "[fe80::1%25eth0]", "2130706433:80"})
    EXPECT_EQ(shown(bad), "refused") << bad;
}

TEST(HostName, KnowsPublicSuffixes) {
  for (const char* suffix : {"com", "co.uk", "nosuchtopleveldomain"})
    EXPECT_TRUE(is_public_suffix(suffix)) << suffix;
  for (const char* name : {"example.com", "example.co.uk", "github.io", "a.nosuchtopleveldomain"})
    EXPECT_FALSE(is_public_suffix(name)) << name;
}

TEST(HostName, HostileTextIsQuoted) {
  EXPECT_EQ(quoted("a.com"), "a.com");
  EXPECT_EQ(quoted("a\n'\x1b[2J"), "a\\x0a\\x27\\x1b[2J");
  EXPECT_LT(space::quoted(std::string(1000, '\n')).size(), 90u);
}

}  // namespace
}  // namespace space

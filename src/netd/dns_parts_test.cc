// The small parts of a sandbox's DNS: pins, limits, cache, chains, names made up.
#include <gtest/gtest.h>

#include <set>

#include "netd/dns_cache.h"
#include "netd/dns_chain.h"
#include "netd/dns_limits.h"
#include "netd/pins.h"
#include "netd/reverse_name.h"
#include "netd/synthetic_names.h"

namespace space::netd {
namespace {

using namespace std::string_literals;
using Names = std::vector<std::string>;

IpAddress ip(std::uint32_t value) {
  return IpAddress::v4(value);
}

TEST(Pins, KnowWhatWasTold) {
  FakeClock clock;
  Pins pins(clock);
  pins.add(ip(1), "a.example");
  pins.add(ip(1), "b.example");
  pins.add(ip(2), "a.example");
  pins.add(ip(1), "a.example");
  EXPECT_EQ(pins.names(ip(1)), (Names{"a.example", "b.example"}));
  EXPECT_TRUE(pins.pinned(ip(2), "a.example"));
  EXPECT_FALSE(pins.pinned(ip(2), "b.example"));
  EXPECT_TRUE(pins.names(ip(3)).empty());
  EXPECT_EQ(pins.size(), 3U);
  pins.remove(ip(1));
  EXPECT_TRUE(pins.names(ip(1)).empty());
  EXPECT_EQ(pins.name_bytes(), 9U);
}

TEST(Pins, LiveAnHourAfterTheirLastUse) {
  FakeClock clock;
  Pins pins(clock);
  pins.add(ip(1), "used");
  pins.add(ip(2), "unused");
  pins.add(ip(3), "held");
  const auto hold = pins.hold(ip(3));
  clock.advance(std::chrono::minutes(59));
  EXPECT_TRUE(pins.pinned(ip(1), "used"));
  clock.advance(std::chrono::minutes(2));
  pins.add(ip(4), "new");
  EXPECT_TRUE(pins.pinned(ip(1), "used"));
  EXPECT_TRUE(pins.pinned(ip(3), "held"));
  EXPECT_FALSE(pins.pinned(ip(2), "unused"));
}

TEST(Pins, TheLongestUnusedMakesRoom) {
  FakeClock clock;
  Pins pins(clock);
  std::optional<Pins::Hold> hold;
  for (std::uint32_t i = 0; i < Pins::max_pins; ++i) {
    pins.add(ip(i), "n");
    if (i == 0) hold = pins.hold(ip(0));
  }
  EXPECT_TRUE(pins.pinned(ip(1), "n"));
  for (std::uint32_t i = 0; i < 10; ++i) pins.add(ip(1'000'000 + i), "n");
  EXPECT_EQ(pins.size(), Pins::max_pins);
  EXPECT_TRUE(pins.pinned(ip(0), "n")) << "held";
  EXPECT_TRUE(pins.pinned(ip(1), "n")) << "used";
  EXPECT_FALSE(pins.pinned(ip(2), "n"));
  hold.reset();
  for (std::uint32_t i = 0; i < Pins::max_pins; ++i) pins.add(ip(2'000'000 + i), "n");
  EXPECT_FALSE(pins.pinned(ip(0), "n"));
}

TEST(Pins, LongNamesAreBoundedToo) {
  FakeClock clock;
  Pins pins(clock);
  for (std::uint32_t i = 0; i < Pins::max_pins; ++i) pins.add(ip(i), std::string(253, 'a'));
  EXPECT_LE(pins.name_bytes(), Pins::max_name_bytes);
  EXPECT_GT(pins.size(), 4000U);
  for (int i = 0; i < 40; ++i) pins.add(ip(7), "name" + std::to_string(i));
  EXPECT_EQ(pins.names(ip(7)).size(), Pins::max_names_of_address);
  EXPECT_EQ(pins.names(ip(7)).front(), "name39");
}

TEST(Pins, AForkKnowsWhatItsOriginKnew) {
  FakeClock clock;
  Pins origin(clock), fork(clock);
  origin.add(ip(1), "old");
  origin.add(ip(1), "new");
  Pins::Hold hold;
  {
    Pins gone(clock);
    gone.add(ip(9), "x");
    hold = gone.hold(ip(9));
    fork.copy_from(gone);
  }
  fork.copy_from(origin);
  origin.remove(ip(1));
  EXPECT_EQ(fork.names(ip(1)), (Names{"new", "old"}));
  EXPECT_TRUE(fork.pinned(ip(9), "x"));
}

TEST(TokenBucket, GivesABurstAndThenARate) {
  FakeClock clock;
  TokenBucket bucket(50, 200, clock);
  const auto taken = [&] {
    int count = 0;
    while (count < 1000 && bucket.take()) ++count;
    return count;
  };
  EXPECT_EQ(taken(), 200);
  clock.advance(Millis(1000));
  EXPECT_EQ(taken(), 50);
  bucket.set_rate(10, 20);
  clock.advance(std::chrono::hours(1));
  EXPECT_EQ(taken(), 20);
}

TEST(UniqueNames, AreLimitedAnHourBelowAWildcard) {
  FakeClock clock;
  UniqueNames names(clock);
  for (std::size_t i = 0; i < UniqueNames::names_an_hour; ++i) {
    ASSERT_TRUE(names.admit("allow *.x", std::to_string(i) + ".x"));
  }
  EXPECT_FALSE(names.admit("allow *.x", "one-more.x"));
  EXPECT_TRUE(names.admit("allow *.x", "7.x")) << "known";
  EXPECT_TRUE(names.admit("allow +.y", "one.y")) << "another rule";
  EXPECT_TRUE(names.admit("allow exact.x", "exact.x"));
  EXPECT_TRUE(names.admit("allow *", "anything"));
  clock.advance(std::chrono::hours(1));
  EXPECT_TRUE(names.admit("allow *.x", "one-more.x"));
}

std::shared_ptr<const DnsReply> reply(std::uint32_t ttl_s, std::size_t data = 4) {
  DnsReply made{.ttl_s = ttl_s};
  made.answers.push_back({.name = "a", .type = DnsType::txt, .ttl = ttl_s, .data = Bytes(data)});
  return std::make_shared<const DnsReply>(std::move(made));
}

TEST(DnsCache, KeepsForItsTimeAndWithinItsSize) {
  FakeClock clock;
  DnsCache cache(clock);
  cache.put("a", DnsType::a, reply(10));
  EXPECT_TRUE(cache.find("a", DnsType::a));
  EXPECT_FALSE(cache.find("a", DnsType::aaaa));
  clock.advance(std::chrono::seconds(9));
  EXPECT_TRUE(cache.find("a", DnsType::a));
  clock.advance(std::chrono::seconds(1));
  EXPECT_FALSE(cache.find("a", DnsType::a));
  EXPECT_EQ(cache.bytes(), 0U);

  for (int i = 0; i < 10'000; ++i) cache.put(std::to_string(i), DnsType::a, reply(60));
  EXPECT_EQ(cache.size(), DnsCache::max_entries);
  EXPECT_TRUE(cache.find("9999", DnsType::a));
  EXPECT_FALSE(cache.find("0", DnsType::a));
  for (int i = 0; i < 3000; ++i) cache.put("large" + std::to_string(i), DnsType::a, reply(60, 4000));
  EXPECT_LE(cache.bytes(), DnsCache::max_bytes);
  EXPECT_LT(cache.size(), 3000U);
}

DnsMessage message_with(std::vector<std::uint32_t> ttls) {
  DnsMessage message;
  message.response = true;
  for (const std::uint32_t ttl : ttls) message.answers.push_back(address_record("a", ip(1), ttl));
  return message;
}

TEST(DnsReply, HoldsFiveToSixtySeconds) {
  EXPECT_EQ(reply_of(message_with({0, 300}))->ttl_s, 5U);
  EXPECT_EQ(reply_of(message_with({300, 30}))->ttl_s, 30U);
  EXPECT_EQ(reply_of(message_with({86400}))->ttl_s, 60U);
  DnsMessage none = message_with({});
  none.rcode = DnsRcode::nx_domain;
  EXPECT_EQ(reply_of(none)->ttl_s, 30U);
  none.authority.push_back({.name = "a", .type = DnsType::soa, .ttl = 3600, .data = Bytes(24)});
  EXPECT_EQ(reply_of(none)->ttl_s, 5U);
  none.rcode = DnsRcode::refused;
  EXPECT_EQ(reply_of(none).error().code, Code::unavailable);
  EXPECT_FALSE(reply_of(DnsMessage()));
}

DnsRecord alias(const std::string& name, const std::string& target) {
  return {.name = name, .type = DnsType::cname, .ttl = 60, .data = name_to_wire(target)};
}

TEST(DnsChain, FollowsAliasesOfTheNameOnly) {
  const std::vector<DnsRecord> answers{address_record("C.net", ip(1), 60), alias("A.com", "b.org"),
                                       alias("b.org", "c.NET"), address_record("other.net", ip(2), 60)};
  const auto chain = follow_chain(answers, "a.com", DnsType::a);
  ASSERT_TRUE(chain);
  EXPECT_EQ(chain->cnames, (std::vector{answers[1], answers[2]}));
  EXPECT_EQ(chain->records, (std::vector{answers[0]}));
  EXPECT_TRUE(follow_chain(answers, "a.com", DnsType::aaaa)->records.empty());
  EXPECT_TRUE(follow_chain(answers, "other.com", DnsType::a)->records.empty());
  EXPECT_EQ(follow_chain(answers, "a.com", DnsType::cname)->records, (std::vector{answers[1]}));
}

TEST(DnsChain, EndsAfterEightAliases) {
  std::vector<DnsRecord> answers;
  for (int i = 0; i < 8; ++i) answers.push_back(alias("n" + std::to_string(i), "n" + std::to_string(i + 1)));
  answers.push_back(address_record("n8", ip(1), 60));
  EXPECT_EQ(follow_chain(answers, "n0", DnsType::a)->records.size(), 1U);
  answers.push_back(alias("m", "n0"));
  EXPECT_FALSE(follow_chain(answers, "m", DnsType::a));
  EXPECT_FALSE(follow_chain({alias("x", "y"), alias("y", "x")}, "x", DnsType::a));
  std::vector<DnsRecord> many;
  for (std::uint32_t i = 0; i < 100; ++i) many.push_back(address_record("x", ip(i), 60));
  EXPECT_EQ(follow_chain(many, "x", DnsType::a)->records.size(), max_chain_records);
}

std::optional<ServiceBinding> plain(const std::string& data) {
  const auto bytes = as_bytes(data);
  return plain_service_binding(
      {.name = "a", .type = DnsType::https, .data = Bytes(bytes.begin(), bytes.end())});
}
std::string data_of(const std::optional<ServiceBinding>& binding) {
  return binding ? std::string(as_text(binding->record.data)) : "refused";
}

TEST(ServiceBinding, LosesWhatLeadsAroundTheGateway) {
  const std::string alpn = "\0\1\0\3\2h2"s, hint4 = "\0\4\0\4\1\2\3\4"s, ech = "\0\5\0\2xx"s,
                    hint6 = "\0\6\0\x10"s + std::string(16, '6'), other = "\0\7\0\0"s;
  EXPECT_EQ(data_of(plain("\0\1\0"s + alpn + hint4 + ech + hint6 + other)), "\0\1\0"s + alpn + other);
  EXPECT_EQ(plain("\0\1\0"s + alpn)->target, "");
  EXPECT_EQ(plain("\0\0\3cdn\3net\0"s)->target, "cdn.net");
  const std::string needs_alpn = "\0\0\0\2\0\1"s, needs_ech = "\0\0\0\2\0\5"s;
  EXPECT_EQ(data_of(plain("\0\1\0"s + needs_alpn + alpn)), "\0\1\0"s + needs_alpn + alpn);
  EXPECT_FALSE(plain("\0\1\0"s + needs_ech + alpn + ech));
  EXPECT_FALSE(plain("\0\1\0"s + other + alpn)) << "out of order";
  EXPECT_FALSE(plain("\0\1\0"s + alpn + alpn)) << "twice";
  EXPECT_FALSE(plain("\0\0\0"s + alpn)) << "an alias with parameters";
  EXPECT_FALSE(plain("\0\1\0\0\1\0\3h"s));
  EXPECT_FALSE(plain("\0\1\3cd"s));
  EXPECT_FALSE(plain("\0"s));
}

std::string block(std::string_view name) {
  const auto found = block_of_reverse_name(name);
  return found ? found->text() : "none";
}

TEST(ReverseName, SaysWhichAddress) {
  EXPECT_EQ(block("4.3.2.1.in-addr.arpa"), "1.2.3.4");
  EXPECT_EQ(block("0.10.in-addr.arpa"), "10.0.0.0/16");
  EXPECT_EQ(block("4.4.3.2.1.in-addr.arpa"), "none");
  EXPECT_EQ(block("256.in-addr.arpa"), "none");
  EXPECT_EQ(block("x.in-addr.arpa"), "none");
  EXPECT_EQ(block("example.com"), "none");
  EXPECT_EQ(block("d.f.ip6.arpa"), "fd00::/8");
  std::string loopback = "1";
  for (int i = 0; i < 31; ++i) loopback += ".0";
  EXPECT_EQ(block(loopback + ".ip6.arpa"), "::1");
}

TEST(SyntheticNames, GiveEachNameItsOwnAddress) {
  SyntheticNames names, after_restart;
  std::set<IpAddress> seen;
  for (int i = 0; i < 5000; ++i) {
    const auto taken = names.take(std::to_string(i));
    EXPECT_TRUE(is_synthetic(taken.addresses.v4) && is_synthetic(taken.addresses.v6));
    seen.insert(taken.addresses.v4);
    seen.insert(taken.addresses.v6);
  }
  EXPECT_EQ(seen.size(), 10'000U);
  EXPECT_EQ(names.take("7").addresses.v4, names.take("7").addresses.v4);
  EXPECT_EQ(names.take("0").addresses.v4, after_restart.take("0").addresses.v4);
  EXPECT_FALSE(is_synthetic(*IpAddress::parse("198.20.0.1")));
  EXPECT_FALSE(is_synthetic(*IpAddress::parse("fd53:5041:4345::1")));
}

TEST(SyntheticNames, TheLongestUnusedMakesRoom) {
  SyntheticNames names;
  const auto first = names.take("first");
  for (std::size_t i = 1; i < SyntheticNames::max_names; ++i) names.take(std::to_string(i));
  (void)names.take("first");
  const auto taken = names.take("one more");
  EXPECT_EQ(taken.evicted, "1");
  EXPECT_EQ(names.take("first").addresses.v4, first.addresses.v4);
  EXPECT_EQ(names.size(), SyntheticNames::max_names);
}

}  // namespace
}  // namespace space::netd

#include "netd/dns_service.h"

#include "base/json.h"
#include "net/test_loop.h"
#include "netd/fake_upstream.h"

namespace space::netd {
namespace {

using namespace std::string_literals;

struct Seen final : DnsObserver {
  std::vector<DnsDecision> decisions;
  void dns_query(const DnsDecision& decision) override { decisions.push_back(decision); }
};

EgressPolicy restricted(std::vector<std::string> rules) {
  EgressPolicy policy;
  policy.mode = EgressMode::restricted;
  for (const std::string& rule : rules) policy.allow.push_back(*parse_egress_rule(rule));
  return policy;
}
EgressPolicy with_mode(EgressMode mode) {
  EgressPolicy policy;
  policy.mode = mode;
  return policy;
}

// What a client reads of an answer.
struct Answer {
  DnsMessage message;
  std::string bytes;
  DnsRcode rcode() const { return message.rcode; }
  std::vector<std::string> addresses() const {
    std::vector<std::string> texts;
    for (const DnsRecord& record : message.answers) {
      if (const auto address = address_in(record)) texts.push_back(address->text());
    }
    return texts;
  }
  // "15 deny_mode", of the extended error: the one option of our EDNS record.
  std::string error() const {
    const std::size_t edns = bytes.find("\x00\x29\x04\xd0"s), option = edns + 10;
    if (edns == std::string::npos || option + 6 > bytes.size()) return "";
    const std::size_t size = static_cast<unsigned char>(bytes[option + 3]);
    const unsigned code = static_cast<unsigned char>(bytes[option + 5]);
    return std::to_string(code) + " " + bytes.substr(option + 6, size - 2);
  }
};

class DnsServiceTest : public LoopTest {
 public:  // for the coroutines of the tests, which are functions of their own
  DnsServiceTest() {
    zone->address("example.com", "93.184.216.34");
    zone->address("example.com", "2606:2800::1");
    set(with_mode(EgressMode::allow_all));
  }
  void set(EgressPolicy policy) {
    service->set_policy(std::make_shared<const EgressMatcher>(std::move(policy)), platform);
  }
  static Bytes query(const std::string& name, DnsType type) {
    return write_query(77, {.name = name, .type = type}, true);
  }
  static Task<std::optional<Answer>> send(std::shared_ptr<DnsService> to, Bytes question, bool tcp) {
    const auto bytes = co_await to->answer(std::move(question), tcp);
    if (!bytes) co_return std::nullopt;
    auto message = parse_dns(*bytes);
    EXPECT_TRUE(message);
    if (!message) co_return std::nullopt;
    co_return Answer{.message = *std::move(message), .bytes = std::string(as_text(*bytes))};
  }
  Task<Answer> ask(std::string name, DnsType type = DnsType::a) {
    auto answer = co_await send(service, query(name, type), false);
    EXPECT_TRUE(answer) << name;
    co_return answer ? *std::move(answer) : Answer();
  }

  FakeClock clock;
  std::shared_ptr<FakeZone> zone = std::make_shared<FakeZone>();
  Resolver resolver{executor(), std::make_unique<FakeUpstream>(zone), clock};
  std::shared_ptr<Pins> pins = std::make_shared<Pins>(clock);
  std::shared_ptr<Seen> seen = std::make_shared<Seen>();
  std::shared_ptr<const PlatformDeny> platform =
      std::make_shared<const PlatformDeny>(std::vector<Cidr>{*Cidr::parse("45.0.0.1")});
  std::shared_ptr<DnsService> service = std::make_shared<DnsService>(resolver, pins, seen, clock);
};

TEST_F(DnsServiceTest, AnswersAndPins) {
  run([&]() -> Task<void> {
    const Answer answer = co_await ask("eXample.Com");
    EXPECT_EQ(answer.message.id, 77);
    EXPECT_EQ(answer.message.question.name, "eXample.Com");
    EXPECT_EQ(answer.message.answers.at(0).name, "eXample.Com");
    EXPECT_EQ(answer.addresses(), std::vector<std::string>{"93.184.216.34"});
    EXPECT_EQ(answer.message.answers.at(0).ttl, 60U);
    EXPECT_TRUE(pins->pinned(*IpAddress::parse("93.184.216.34"), "example.com"));
    EXPECT_FALSE(pins->pinned(*IpAddress::parse("2606:2800::1"), "example.com"));
    EXPECT_EQ((co_await ask("example.com", DnsType::aaaa)).addresses(),
              std::vector<std::string>{"2606:2800::1"});
    EXPECT_EQ((co_await ask("nothing.example")).rcode(), DnsRcode::nx_domain);
    EXPECT_EQ(seen->decisions.size(), 3U);
    EXPECT_TRUE(seen->decisions[0].allowed);
    EXPECT_EQ(seen->decisions[0].host, "example.com");
    (void)co_await ask("example.com");
    EXPECT_EQ(zone->times_asked("example.com"), 2U) << "one for each family, then from the cache";
  });
}

TEST_F(DnsServiceTest, RefusedNamesReachNobody) {
  set(restricted({"*.allowed.com", "example.com:443"}));
  zone->address("a.allowed.com", "1.2.3.4");
  run([&]() -> Task<void> {
    for (const char* name :
         {"blocked.com", "nosuch.example", "allowed.com", "xallowed.com", "allowed.com.evil.com", "127.0.0.1",
          "0x7f.1", "2130706433", "a b.allowed.com", "allowed\\.com", "x\\000.allowed.com"}) {
      const Answer answer = co_await ask(name);
      EXPECT_EQ(answer.rcode(), DnsRcode::nx_domain) << name;
      EXPECT_TRUE(answer.error() == "15 deny_mode" || answer.error() == "15 deny_bad_name")
          << name << ": " << answer.error();
    }
    EXPECT_TRUE(zone->asked.empty());
    EXPECT_EQ((co_await ask("a.allowed.com")).rcode(), DnsRcode::no_error);
    EXPECT_EQ((co_await ask("example.com")).rcode(), DnsRcode::no_error);
    EXPECT_EQ(zone->asked.size(), 2U);
    set(with_mode(EgressMode::deny_all));
    EXPECT_EQ((co_await ask("a.allowed.com")).error(), "15 deny_mode");
    EXPECT_EQ(zone->asked.size(), 2U);
    service->set_policy(nullptr, nullptr);
    const Answer answer = co_await ask("a.allowed.com");
    EXPECT_EQ(answer.rcode(), DnsRcode::server_failure);
    EXPECT_EQ(answer.error(), "15 no_policy");
    EXPECT_EQ(seen->decisions.back().reason, EgressReason::no_policy);
  });
}

TEST_F(DnsServiceTest, DeniedAndMissingNamesLookAlike) {
  set(restricted({"example.com"}));
  zone->address("there.example", "1.2.3.4");
  run([&]() -> Task<void> {
    std::string there = (co_await ask("there.example")).bytes, none = (co_await ask("none1.example")).bytes;
    const auto blank = [](std::string& bytes, const std::string& name) {
      bytes.replace(bytes.find(name), name.size(), std::string(name.size(), '*'));
    };
    blank(there, "there");
    blank(none, "none1");
    EXPECT_EQ(there, none);
    EXPECT_EQ((co_await ask("example.com")).rcode(), DnsRcode::no_error);
  });
}

TEST_F(DnsServiceTest, NoAddressFromInside) {
  for (const char* inside :
       {"169.254.169.254", "10.0.0.1", "0.0.0.0", "127.0.0.1", "45.0.0.1", "10.77.0.1"}) {
    zone->address("inside.example", inside);
  }
  for (const char* hidden : {"::ffff:10.0.0.5", "64:ff9b::a00:5", "2002:a00:5::", "::10.0.0.5", "::1"}) {
    zone->address("hidden.example", hidden);
  }
  zone->address("mixed.example", "10.0.0.1");
  zone->address("mixed.example", "8.8.8.8");
  zone->alias("chain.example", "inside.lan", DnsType::a);
  zone->address("chain.example", "10.9.9.9", "inside.lan");
  run([&]() -> Task<void> {
    for (const auto& [name, type] : std::vector<FakeZone::Key>{{"inside.example", DnsType::a},
                                                               {"hidden.example", DnsType::aaaa},
                                                               {"chain.example", DnsType::a}}) {
      const Answer answer = co_await ask(name, type);
      EXPECT_EQ(answer.rcode(), DnsRcode::nx_domain) << name;
      EXPECT_TRUE(answer.message.answers.empty()) << name;
      EXPECT_EQ(answer.error(), "17 deny_filtered") << name;
      EXPECT_FALSE(seen->decisions.back().allowed);
      EXPECT_EQ(seen->decisions.back().reason, EgressReason::deny_filtered);
    }
    EXPECT_EQ((co_await ask("mixed.example")).addresses(), std::vector<std::string>{"8.8.8.8"});
    EXPECT_EQ(pins->size(), 1U);
    const auto mixed = co_await service->dial_addresses("mixed.example", 443, soon());
    EXPECT_EQ(mixed, std::vector{*IpAddress::parse("8.8.8.8")});
    const auto inside = co_await service->dial_addresses("inside.example", 443, soon());
    EXPECT_EQ(inside.error().code, Code::permission_denied);
    const auto missing = co_await service->dial_addresses("missing.example", 443, soon());
    EXPECT_EQ(missing.error().code, Code::not_found);
  });
}

TEST_F(DnsServiceTest, ReverseNamesOfInsideAreNotAskedFor) {
  zone->record("4.3.2.1.in-addr.arpa", DnsType::ptr, name_to_wire("one.example"));
  run([&]() -> Task<void> {
    EXPECT_EQ((co_await ask("1.0.0.10.in-addr.arpa", DnsType::ptr)).error(), "17 deny_filtered");
    EXPECT_EQ((co_await ask("10.in-addr.arpa", DnsType::soa)).error(), "17 deny_filtered");
    EXPECT_TRUE(zone->asked.empty());
    EXPECT_EQ((co_await ask("4.3.2.1.in-addr.arpa", DnsType::ptr)).message.answers.size(), 1U);
  });
}

TEST_F(DnsServiceTest, OtherTypesOnlyWhereAllIsAllowed) {
  const Bytes text{std::byte(2), std::byte('h'), std::byte('i')};
  zone->record("example.com", DnsType::txt, text);
  run([&]() -> Task<void> {
    const Answer forwarded = co_await ask("example.com", DnsType::txt);
    EXPECT_EQ(forwarded.message.answers.at(0).data, text);
    for (const unsigned meta : {252U, 255U, 41U}) {
      EXPECT_EQ((co_await ask("example.com", static_cast<DnsType>(meta))).rcode(), DnsRcode::not_implemented);
    }
    set(restricted({"example.com"}));
    const std::size_t before = zone->asked.size();
    const Answer none = co_await ask("example.com", DnsType::txt);
    EXPECT_EQ(none.rcode(), DnsRcode::no_error);
    EXPECT_TRUE(none.message.answers.empty());
    EXPECT_EQ(zone->asked.size(), before);
  });
}

TEST_F(DnsServiceTest, ServiceBindingsAreStripped) {
  set(restricted({"example.com", "cdn.net"}));
  const auto https = [&](const std::string& data) {
    const auto bytes = as_bytes(data);
    zone->record("example.com", DnsType::https, Bytes(bytes.begin(), bytes.end()));
  };
  https("\0\1\0"s + "\0\1\0\3\2h2"s + "\0\5\0\2xx"s);
  https("\0\1\4evil\3com\0"s);
  https("\0\1\3cdn\3net\0"s);
  run([&]() -> Task<void> {
    const Answer answer = co_await ask("example.com", DnsType::https);
    EXPECT_EQ(answer.message.answers.size(), 2U);
    EXPECT_EQ(answer.bytes.find("xx"), std::string::npos);
    EXPECT_NE(answer.bytes.find("h2"), std::string::npos);
    EXPECT_NE(answer.bytes.find("cdn"), std::string::npos);
  });
}

TEST_F(DnsServiceTest, WhatIsNoQuestionIsNoWork) {
  run([&]() -> Task<void> {
    for (const std::string& text :
         {"x"s, "\x00\x01\x80\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01"s}) {
      const auto bytes = as_bytes(text);
      EXPECT_FALSE(co_await service->answer(Bytes(bytes.begin(), bytes.end()), false));
    }
    const Bytes empty(12);
    const auto malformed = co_await service->answer(empty, false);
    EXPECT_EQ(malformed->size(), 12U);
    EXPECT_EQ(std::to_integer<unsigned>(malformed->at(3)) & 15U, 1U);
    Bytes update = query("example.com", DnsType::a);
    update[2] = std::byte(0x28);
    EXPECT_EQ((co_await send(service, update, false))->rcode(), DnsRcode::not_implemented);
    Bytes chaos = query("example.com", DnsType::a);
    chaos[12 + 13 + 3] = std::byte(3);
    EXPECT_EQ((co_await send(service, chaos, false))->rcode(), DnsRcode::refused);
    EXPECT_TRUE(zone->asked.empty());
  });
}

TEST_F(DnsServiceTest, LargeAnswersAreForTcp) {
  for (int i = 0; i < 32; ++i) {
    zone->address("many.example", ("2606:2800::" + std::to_string(i + 1)).c_str());
  }
  run([&]() -> Task<void> {
    const Bytes plain = write_query(1, {.name = "many.example", .type = DnsType::aaaa}, false);
    EXPECT_TRUE((co_await send(service, plain, false))->message.truncated);
    EXPECT_EQ((co_await ask("many.example", DnsType::aaaa)).addresses().size(), 32U) << "EDNS: 1232 bytes";
    EXPECT_EQ((co_await send(service, plain, true))->addresses().size(), 32U);
  });
}

TEST_F(DnsServiceTest, TooManyQuestionsAreRefusedAndThenDropped) {
  run([&]() -> Task<void> {
    int answered = 0, refused = 0, dropped = 0;
    for (int i = 0; i < 1000; ++i) {
      const auto answer = co_await send(service, query("example.com", DnsType::a), false);
      ++(!answer ? dropped : answer->rcode() == DnsRcode::no_error ? answered : refused);
      if (refused == 1) EXPECT_EQ(answer->error(), "0 deny_limit");
    }
    EXPECT_EQ(answered, 200);
    EXPECT_EQ(refused, 200);
    EXPECT_EQ(dropped, 600);
    EXPECT_TRUE(service->flooded());
    clock.advance(Millis(1000));
    EXPECT_EQ((co_await ask("example.com")).rcode(), DnsRcode::no_error);
    EXPECT_FALSE(service->flooded());
  });
}

TEST_F(DnsServiceTest, QuestionsUnderWayAreBounded) {
  zone->hold = true;
  zone->released = std::make_unique<Event>(executor());
  EgressPolicy policy = with_mode(EgressMode::allow_all);
  policy.limits.dns_qps = 10'000;
  set(policy);
  run([&]() -> Task<void> {
    int answered = 0;
    const auto one = [](DnsServiceTest* test, int number, int* count) -> Task<void> {
      (void)co_await test->ask("n" + std::to_string(number) + ".example");
      ++*count;
    };
    for (int i = 0; i < 300; ++i) spawn(executor(), "ask", one(this, i, &answered));
    co_await settle();
    EXPECT_EQ(answered, 300 - static_cast<int>(DnsService::max_under_way));
    EXPECT_EQ(zone->asked.size(), DnsService::max_under_way);
    zone->hold = false;
    zone->released->notify_all();
    co_await settle();
    EXPECT_EQ(answered, 300);
  });
}

TEST_F(DnsServiceTest, ATunnelBelowAWildcardEnds) {
  EgressPolicy policy = restricted({"*.wild.example"});
  policy.limits.dns_qps = 10'000;
  set(policy);
  run([&]() -> Task<void> {
    for (std::size_t i = 0; i < UniqueNames::names_an_hour; ++i) {
      (void)co_await ask("d" + std::to_string(i) + ".wild.example");
    }
    const std::size_t asked = zone->asked.size();
    EXPECT_EQ(asked, UniqueNames::names_an_hour);
    const Answer answer = co_await ask("secret.wild.example");
    EXPECT_EQ(answer.rcode(), DnsRcode::server_failure);
    EXPECT_EQ(answer.error(), "15 deny_limit");
    const auto dialled = co_await service->dial_addresses("secret.wild.example", 443, soon());
    EXPECT_EQ(dialled.error().code, Code::exhausted);
    EXPECT_EQ(zone->asked.size(), asked);
    EXPECT_EQ((co_await ask("d7.wild.example")).rcode(), DnsRcode::nx_domain);
  });
}

TEST_F(DnsServiceTest, ADeadResolverIsSaid) {
  zone->failures["down.example"] = Error{Code::unavailable, "refused"};
  zone->failures["slow.example"] = Error{Code::deadline, "late"};
  run([&]() -> Task<void> {
    const Answer down = co_await ask("down.example");
    EXPECT_EQ(down.rcode(), DnsRcode::server_failure);
    EXPECT_EQ(down.error(), "22 unresolved");
    EXPECT_EQ((co_await ask("slow.example")).error(), "22 timeout");
    zone->failures.clear();
    zone->address("down.example", "1.2.3.4");
    EXPECT_EQ((co_await ask("down.example")).rcode(), DnsRcode::no_error) << "failures are not kept";
  });
}

TEST_F(DnsServiceTest, SyntheticAddressesHideTheRealOnes) {
  EgressPolicy policy = restricted({"example.com", "db.example:5432", "inside.example"});
  policy.dns = EgressDns::synthetic;
  set(policy);
  zone->address("db.example", "1.2.3.4");
  zone->address("inside.example", "10.0.0.1");
  run([&]() -> Task<void> {
    const Answer first = co_await ask("example.com");
    const Answer db4 = co_await ask("db.example"), db6 = co_await ask("db.example", DnsType::aaaa);
    EXPECT_EQ(first.addresses().size(), 1U);
    EXPECT_EQ(db6.addresses().size(), 1U) << "of either family, whatever the real ones are of";
    for (const Answer& answer : {first, db4, db6}) {
      const IpAddress address = *IpAddress::parse(answer.addresses().at(0));
      EXPECT_TRUE(is_synthetic(address));
      EXPECT_TRUE(pins->pinned(address, dns_lower(answer.message.question.name)));
    }
    EXPECT_NE(first.addresses(), db4.addresses());
    EXPECT_EQ((co_await ask("inside.example")).error(), "17 deny_filtered");
    EXPECT_EQ((co_await ask("other.example")).error(), "15 deny_mode");
    const auto dialled = co_await service->dial_addresses("db.example", 5432, soon());
    EXPECT_EQ(dialled, std::vector{*IpAddress::parse("1.2.3.4")});
  });
}

}  // namespace
}  // namespace space::netd

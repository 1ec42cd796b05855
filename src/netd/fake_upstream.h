// For tests: resolvers that know what a test says, and remember what they were asked.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "netd/resolver.h"

namespace space::netd {

struct FakeZone {
  using Key = std::pair<std::string, DnsType>;
  std::map<Key, DnsReply> replies;  // what is not here does not exist
  std::map<std::string, Error> failures;
  std::vector<Key> asked;
  bool hold = false;  // questions stay under way until it is false
  std::unique_ptr<Event> released;

  static DnsType type_of(const IpAddress& address) { return address.is_v4() ? DnsType::a : DnsType::aaaa; }
  void alias(const std::string& name, const std::string& target, DnsType type) {
    replies[Key(name, type)].answers.push_back(
        {.name = name, .type = DnsType::cname, .ttl = 60, .data = name_to_wire(target)});
  }
  // `owner`: of an alias chain's end.
  void address(const std::string& name, const char* text, const std::string& owner = {}) {
    const IpAddress parsed = *IpAddress::parse(text);
    auto& reply = replies[Key(name, type_of(parsed))];
    reply.answers.push_back(address_record(owner.empty() ? name : owner, parsed, 60));
    reply.ttl_s = 60;
  }
  void record(const std::string& name, DnsType type, Bytes data) {
    replies[Key(name, type)].answers.push_back(
        {.name = name, .type = type, .ttl = 60, .data = std::move(data)});
  }
  std::size_t times_asked(const std::string& name) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(asked, [&](const Key& key) { return key.first == name; }));
  }
};

class FakeUpstream final : public DnsUpstream {
 public:
  explicit FakeUpstream(std::shared_ptr<FakeZone> zone) : zone_(std::move(zone)) {}

  Task<Result<DnsReply>> ask(std::string name, DnsType type, Deadline) override {
    return answer(zone_, std::move(name), type);
  }

 private:
  static Task<Result<DnsReply>> answer(std::shared_ptr<FakeZone> zone, std::string name, DnsType type) {
    zone->asked.emplace_back(name, type);
    while (zone->hold) co_await zone->released->wait();
    const auto failure = zone->failures.find(name);
    if (failure != zone->failures.end()) co_return std::unexpected(failure->second);
    const auto reply = zone->replies.find({name, type});
    if (reply != zone->replies.end()) co_return reply->second;
    const bool exists =
        std::ranges::any_of(zone->replies, [&](const auto& entry) { return entry.first.first == name; });
    co_return DnsReply{.rcode = exists ? DnsRcode::no_error : DnsRcode::nx_domain, .answers = {}};
  }

  std::shared_ptr<FakeZone> zone_;
};

}  // namespace space::netd

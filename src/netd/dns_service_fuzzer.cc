// A guest's bytes as a question and the internet's as its answer: no address from inside gets to the guest,
// no service binding that leads around the gateway, and no question for a name that is not allowed gets out.
#include <boost/asio/io_context.hpp>
#include <cstdlib>

#include "netd/dns_chain.h"
#include "netd/dns_service.h"

namespace {

using namespace space;
using namespace space::netd;

void require(bool condition) {
  if (!condition) std::abort();
}

class Internet final : public DnsUpstream {
 public:
  Internet(std::span<const std::byte> answer, std::vector<std::string>* asked)
      : answer_(answer.begin(), answer.end()), asked_(asked) {}
  Task<Result<DnsReply>> ask(std::string name, DnsType, Deadline) override {
    asked_->push_back(std::move(name));
    auto message = parse_dns(answer_);
    if (!message) co_return std::unexpected(message.error());
    co_return reply_of(*std::move(message));
  }

 private:
  Bytes answer_;
  std::vector<std::string>* asked_;
};

struct Nobody final : DnsObserver {
  void dns_query(const DnsDecision&) override {}
};

void check_answer(const DnsMessage& answer) {
  static const PlatformDeny platform;
  require(answer.response);
  for (const DnsRecord& record : answer.answers) {
    const auto address = address_in(record);
    require(!address || !platform.hit(*address));
    if (record.type != DnsType::https && record.type != DnsType::svcb) continue;
    const auto plain = plain_service_binding(record);
    require(plain && plain->record.data == record.data);
  }
}

Task<void> ask(std::shared_ptr<DnsService> service, Bytes query, bool tcp) {
  const auto answer = co_await service->answer(std::move(query), tcp);
  if (!answer) co_return;
  require(tcp || answer->size() <= dns_limits::udp_bytes);
  if (answer->size() == dns_limits::header_bytes) co_return;  // FORMERR
  const auto message = parse_dns(*answer);
  require(message.has_value());
  check_answer(*message);
}

void check(EgressMode mode, std::span<const std::byte> query, std::span<const std::byte> internet) {
  boost::asio::io_context loop;
  std::vector<std::string> asked;
  Resolver resolver(loop.get_executor(), std::make_unique<Internet>(internet, &asked));
  EgressPolicy policy{.mode = mode};
  if (mode == EgressMode::restricted) policy.allow.push_back(*parse_egress_rule("example.com"));
  const auto service =
      std::make_shared<DnsService>(resolver, std::make_shared<Pins>(), std::make_shared<Nobody>());
  service->set_policy(std::make_shared<const EgressMatcher>(policy), std::make_shared<const PlatformDeny>());
  for (const bool tcp : {false, true}) {
    spawn(loop.get_executor(), "ask", ask(service, Bytes(query.begin(), query.end()), tcp));
  }
  loop.run();
  require(mode != EgressMode::deny_all || asked.empty());
  for (const std::string& name : asked) {
    require(canonical_host_name(name) == name);
    require(mode != EgressMode::restricted || name == "example.com");
  }
}

}  // namespace

// The first two bytes: how many of the rest are the question.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::span bytes(reinterpret_cast<const std::byte*>(data) + 2, size - 2);
  const std::size_t question = std::min<std::size_t>(bytes.size(), data[0] << 8 | data[1]);
  for (const EgressMode mode : {EgressMode::allow_all, EgressMode::restricted, EgressMode::deny_all}) {
    check(mode, bytes.first(question), bytes.subspan(question));
  }
  return 0;
}

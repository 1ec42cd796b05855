#include "netd/sandbox_gate.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "netd/dns_server.h"

namespace space::netd {
namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;
using Descriptor = asio::posix::stream_descriptor;

constexpr std::uint16_t dns_port = 53;
constexpr Millis end_limit = 5s;  // flows that were cut are gone long before
constexpr unsigned accepts_before_yield = 16;
// Connections beyond the limits are refused one by one, but no faster than this: a flood costs its neighbours
// little. What comes meanwhile waits in the listener's queue.
constexpr unsigned refusals_before_pause = 16;
constexpr Millis refusal_pause = 10ms;
constexpr Millis resource_pause = 50ms;
constexpr double new_flows_burst = 2;  // seconds' worth

class Observer final : public DnsObserver {
 public:
  explicit Observer(std::weak_ptr<SandboxGate> gate) : gate_(std::move(gate)) {}
  void dns_query(const DnsDecision& decision) override {
    if (const auto gate = gate_.lock()) gate->dns_query(decision);
  }

 private:
  std::weak_ptr<SandboxGate> gate_;
};

std::uint64_t positive(std::int64_t value) {
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

// Of an allow rule for blocks that is about what a flow is.
bool about_content(const EgressRule& rule) {
  return rule.protocol != EgressProtocol::any || rule.by_request();
}

EgressVerdict refusal(EgressReason reason) {
  return {.allowed = false, .reason = reason, .rule = {}};
}

}  // namespace

// The sockets of one slot; their coroutines hold it and end with it.
struct SandboxGate::Attachment {
  std::array<std::optional<Descriptor>, 2> listeners;
  std::array<asio::cancellation_signal, 2> dns;
  FdBudget::Share share;

  void close() {
    boost::system::error_code ignored;
    for (auto& listener : listeners)
      if (listener) listener->close(ignored);
    for (auto& signal : dns) signal.emit(asio::cancellation_type::terminal);
  }
};

std::shared_ptr<SandboxGate> SandboxGate::make(LoopParts& loop, std::string id) {
  std::shared_ptr<SandboxGate> gate(new SandboxGate(loop, std::move(id)));
  gate->dns_ = std::make_shared<DnsService>(*loop.resolver, gate->pins_, std::make_shared<Observer>(gate));
  return gate;
}

SandboxGate::SandboxGate(LoopParts& loop, std::string id)
    : loop_(loop),
      id_(std::move(id)),
      pins_(std::make_shared<Pins>()),
      new_flows_(0, 0, system_clock()),
      flows_changed_(loop.executor),
      log_changed_(loop.executor) {}

Task<std::size_t> SandboxGate::set_policy(std::shared_ptr<const EgressMatcher> matcher,
                                          std::uint64_t generation) {
  const auto self = shared_from_this();
  matcher_ = std::move(matcher);
  generation_ = generation;
  reads_flows_ = matcher_->needs_names() || std::ranges::any_of(matcher_->policy().allow, about_content);
  dns_->set_policy(matcher_, loop_.platform);
  const EgressLimits& limits = matcher_->policy().limits;
  traffic_.set_limits({positive(limits.bytes_per_s), positive(limits.bytes_total)},
                      system_clock().monotonic());
  const auto rate = static_cast<double>(limits.new_conns_per_s);
  new_flows_.set_rate(rate, rate * new_flows_burst);
  log_allowed({.kind = LogKind::policy, .allowed = true, .reason = EgressReason::allow_mode});
  co_return co_await judge_all_again();
}

Task<std::size_t> SandboxGate::set_platform() {
  const auto self = shared_from_this();
  if (!matcher_) co_return 0;
  dns_->set_policy(matcher_, loop_.platform);
  co_return co_await judge_all_again();
}

Task<std::size_t> SandboxGate::judge_all_again() {
  std::vector<FlowPtr> forbidden;
  for (const FlowPtr& flow : flows_) {
    const EgressVerdict verdict = flow->judge_again();
    if (verdict.allowed) continue;
    flow->cut(verdict);
    forbidden.push_back(flow);
  }
  const std::size_t cut = forbidden.size();
  co_await end_flows(std::move(forbidden));
  co_return cut;
}

// Their sockets are closed; waits until nothing of them runs.
Task<void> SandboxGate::end_flows(std::vector<FlowPtr> flows) {
  const Deadline deadline = Deadline::after(end_limit);
  for (const FlowPtr& flow : flows)
    while (!flow->over() && !deadline.passed()) co_await flows_changed_.wait(deadline);
}

Task<Result<void>> SandboxGate::attach(SlotSockets sockets) {
  const auto self = shared_from_this();
  co_await detach();
  auto attachment = std::make_shared<Attachment>();
  attachment->share = loop_.descriptors.take(4);
  if (!attachment->share) co_return fail(Code::exhausted, "the gateway has no descriptors left");
  attachment->listeners[0].emplace(loop_.executor, sockets.tcp4.release());
  attachment->listeners[1].emplace(loop_.executor, sockets.tcp6.release());
  attachment_ = attachment;
  for (std::size_t i = 0; i < attachment->listeners.size(); ++i)
    spawn(loop_.executor, "accept flows", accept_loop(self, attachment, i));
  std::array<Fd, 2> dns{std::move(sockets.udp4), std::move(sockets.udp6)};
  for (std::size_t i = 0; i < dns.size(); ++i) {
    asio::co_spawn(
        loop_.executor, serve_dns_udp(std::move(dns[i]), dns_),
        asio::bind_cancellation_slot(attachment->dns[i].slot(), [attachment](const std::exception_ptr&) {}));
  }
  co_return Result<void>();
}

Task<void> SandboxGate::detach() {
  const auto self = shared_from_this();
  if (const auto attachment = std::exchange(attachment_, nullptr)) attachment->close();
  std::vector<FlowPtr> all(flows_.begin(), flows_.end());
  for (const FlowPtr& flow : all) flow->cut(refusal(EgressReason::no_policy));
  co_await end_flows(std::move(all));
}

Task<void> SandboxGate::accept_loop(std::shared_ptr<SandboxGate> gate, std::shared_ptr<Attachment> attachment,
                                    std::size_t listener) {
  Descriptor& socket = *attachment->listeners[listener];
  unsigned accepted = 0;
  unsigned refused = 0;
  while (socket.is_open()) {
    Fd fd(::accept4(socket.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int error = errno;
    if (fd) {
      if (!gate->admit(std::move(fd)) && ++refused % refusals_before_pause == 0) {
        co_await sleep_for(refusal_pause);
      } else if (++accepted % accepts_before_yield == 0) {
        co_await asio::post(asio::use_awaitable);
      }
    } else if (error == EAGAIN) {
      co_await socket.async_wait(Descriptor::wait_read, asio::as_tuple(asio::use_awaitable));
    } else if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM) {
      log::warn("accept is waiting for resources", {{"sandbox", gate->id_}, {"error", std::strerror(error)}});
      co_await sleep_for(resource_pause);
    } else if (error == EBADF || error == EINVAL || error == ENOTSOCK || error == EOPNOTSUPP) {
      break;
    }  // anything else was the fate of one connection
  }
}

std::optional<Destination> SandboxGate::destination_of(int fd) {
  sockaddr_storage local{};
  socklen_t size = sizeof local;
  auto* const address = reinterpret_cast<sockaddr*>(&local);
  if (::getsockname(fd, address, &size) != 0) return std::nullopt;
  const auto meant = IpAddress::from_sockaddr(address, size);
  if (!meant) return std::nullopt;
  Destination to{.address = *meant, .port = 0, .names = {}, .synthetic = false};
  // The port has the same place in sockaddr_in and sockaddr_in6.
  to.port = ntohs(reinterpret_cast<const sockaddr_in*>(&local)->sin_port);
  if (loop_.meant) {
    if (const auto other = loop_.meant(to.port)) std::tie(to.address, to.port) = *other;
  }
  to.names = pins_->names(to.address);
  to.synthetic = is_synthetic(to.address) && !to.names.empty();
  return to;
}

std::optional<EgressReason> SandboxGate::over_limit() {
  if (!matcher_) return EgressReason::no_policy;
  if (flows_.size() >= positive(matcher_->policy().limits.conns)) return EgressReason::deny_limit;
  if (traffic_.quota_used_up()) return EgressReason::deny_quota;
  if (!new_flows_.take()) return EgressReason::deny_limit;
  return std::nullopt;
}

bool SandboxGate::admit(Fd connected) {
  auto to = destination_of(connected.get());
  if (!to) return true;
  std::optional<EgressReason> limit = over_limit();
  FdBudget::Share share = limit ? FdBudget::Share() : loop_.descriptors.take(Flow::descriptors);
  if (!limit && !share) limit = EgressReason::deny_limit;
  if (limit) {
    refuse(std::move(connected), *to, refusal(*limit));
    return false;
  }
  EgressProtocol expected = EgressProtocol::tcp;
  if (to->port != dns_port) {
    if (const auto no = matcher_->refused_at_accept(*loop_.platform, to->address, to->port, to->names)) {
      refuse(std::move(connected), *to, *no);
      return true;
    }
    if (reads_flows_) expected = matcher_->expected(to->address, to->port, to->names);
  }
  ++counters_.flows_total;
  const int on = 1;
  ::setsockopt(connected.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // what comes goes on at once
  const auto flow = std::make_shared<Flow>(shared_from_this(),
                                           std::make_shared<FlowSocket>(loop_.executor, std::move(connected)),
                                           *std::move(to), std::move(share));
  flows_.insert(flow);
  Flow::start(flow, expected);
  return true;
}

void SandboxGate::refuse(Fd connected, const Destination& to, const EgressVerdict& verdict) {
  reset_connection(std::move(connected));
  log_refusal({.kind = LogKind::tcp,
               .host = to.names.empty() ? std::string() : to.names.front(),
               .address = to.address.text(),
               .port = to.port,
               .allowed = false,
               .reason = verdict.reason,
               .rule = verdict.rule});
}

void SandboxGate::flow_ended(Flow& flow) {
  flow.log_end();
  flow.set_over();
  flows_.erase(flow.shared_from_this());
  flows_changed_.notify_all();
}

void SandboxGate::count(const EgressVerdict& verdict) {
  ++counters_.by_reason[static_cast<std::size_t>(verdict.reason)];
}

void SandboxGate::log_allowed(LogEntry entry) {
  entry.generation = generation_;
  log_.add(std::move(entry));
  log_changed_.notify_all();
}

void SandboxGate::log_refusal(LogEntry entry) {
  ++counters_.denied_total;
  count({.allowed = false, .reason = entry.reason, .rule = {}});
  entry.generation = generation_;
  if (log_.add_counted(std::move(entry))) log_changed_.notify_all();
}

void SandboxGate::dns_query(const DnsDecision& decision) {
  ++counters_.dns_queries;
  LogEntry entry{.kind = LogKind::dns,
                 .host = decision.host,
                 .port = dns_port,
                 .allowed = decision.allowed,
                 .reason = decision.reason,
                 .rule = decision.rule};
  if (decision.allowed) {
    count({.allowed = true, .reason = decision.reason, .rule = {}});
    entry.generation = generation_;
    if (log_.add_counted(std::move(entry))) log_changed_.notify_all();
    return;
  }
  ++counters_.dns_refused;
  log_refusal(std::move(entry));
}

}  // namespace space::netd

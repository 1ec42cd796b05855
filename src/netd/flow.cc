#include "netd/flow.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <cstdlib>

#include "base/log.h"
#include "netd/dialer.h"
#include "netd/dns_server.h"
#include "netd/sandbox_gate.h"

namespace space::netd {
namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;

constexpr Millis resolve_limit = 5s;
constexpr Millis dial_limit = 10s;
constexpr std::uint16_t dns_port = 53;

EgressReason reason_of(DialFailure failure) {
  switch (failure) {
    case DialFailure::forbidden:
      return EgressReason::deny_filtered;
    case DialFailure::timeout:
      return EgressReason::timeout;
    case DialFailure::no_descriptor:
      return EgressReason::deny_limit;
    case DialFailure::refused:
    case DialFailure::unreachable:
      break;
  }
  return EgressReason::unreachable;
}

EgressVerdict refusal(EgressReason reason, std::string rule = {}) {
  return {.allowed = false, .reason = reason, .rule = std::move(rule)};
}

EgressProtocol protocol_of(LogKind kind) {
  if (kind == LogKind::tls) return EgressProtocol::tls;
  return kind == LogKind::http ? EgressProtocol::http : EgressProtocol::tcp;
}

// An address that a sandbox was told for the name, so that rules about the name count for it.
std::string name_counts(const FlowDecision& decision, const Destination& to) {
  const bool told = std::ranges::find(to.names, decision.name) != to.names.end();
  return decision.resolve || told ? decision.name : std::string();
}

// Of the addresses of a name the one that the guest chose comes first, then those of its family: who asks for
// IPv6 gets it, and who spreads over addresses does.
std::vector<IpAddress> by_choice_of_guest(const std::vector<IpAddress>& addresses, const IpAddress& chosen) {
  const auto rank_of = [&](const IpAddress& address) {
    return address == chosen ? 0 : address.is_v4() == chosen.is_v4() ? 1 : 2;
  };
  std::vector<IpAddress> ordered;
  for (const int rank : {0, 1, 2})
    std::ranges::copy_if(addresses, std::back_inserter(ordered),
                         [&](const IpAddress& address) { return rank_of(address) == rank; });
  return ordered;
}

}  // namespace

EgressReason resolve_failure(Code code) {
  switch (code) {
    case Code::exhausted:
      return EgressReason::deny_limit;
    case Code::permission_denied:
      return EgressReason::deny_filtered;
    case Code::deadline:
      return EgressReason::timeout;
    default:
      return EgressReason::unresolved;
  }
}

FlowDecision decide(const EgressMatcher& matcher, const Destination& to, const FlowQuestion& question) {
  if (const auto* tls = std::get_if<TlsQuestion>(&question)) return decide_tls(matcher, to, tls->name);
  if (const auto* nameless = std::get_if<NamelessQuestion>(&question))
    return decide_nameless(matcher, to, nameless->reason, nameless->spoken);
  if (const auto* request = std::get_if<RequestQuestion>(&question))
    return decide_http(matcher, to, *request);
  return decide_tcp(matcher, to);
}

Flow::Flow(std::shared_ptr<SandboxGate> gate, FlowSocketPtr guest, Destination to, FdBudget::Share share)
    : gate_(std::move(gate)),
      guest_(std::move(guest)),
      to_(std::move(to)),
      share_(std::move(share)),
      hold_(gate_->pins()->hold(to_.address)) {}

void Flow::start(std::shared_ptr<Flow> flow, EgressProtocol expected) {
  auto ended = [flow](const std::exception_ptr& failure) {
    if (failure && !flow->cut_) {
      log::error("a flow failed", {{"sandbox", flow->gate_->id()}});
      std::abort();  // our functions do not throw, but for a cancellation
    }
    flow->guest_->close();
    if (flow->upstream_) flow->upstream_->close();
    flow->gate_->flow_ended(*flow);
  };
  asio::co_spawn(flow->gate_->loop().executor, flow->run(expected),
                 asio::bind_cancellation_slot(flow->cancel_.slot(), std::move(ended)));
}

Task<void> Flow::run(EgressProtocol expected) {
  const auto self = shared_from_this();
  if (to_.port == dns_port) {
    co_await serve_dns_tcp(stream_of(guest_), gate_->dns_ptr());
  } else if (expected == EgressProtocol::tls) {
    co_await run_tls(self);
  } else if (expected == EgressProtocol::http) {
    co_await run_http(self);
  } else {
    co_await run_tcp(self);
  }
}

FlowDecision Flow::ask(FlowQuestion question) {
  if (std::holds_alternative<TlsQuestion>(question) || std::holds_alternative<NamelessQuestion>(question))
    kind_ = LogKind::tls;
  if (std::holds_alternative<RequestQuestion>(question)) kind_ = LogKind::http;
  question_ = std::move(question);
  return decide(*gate_->matcher(), to_, *question_);
}

Task<std::expected<void, FlowRefusal>> Flow::open(FlowQuestion question) {
  FlowDecision decision = ask(std::move(question));
  if (!decision.verdict.allowed) co_return std::unexpected(FlowRefusal{std::move(decision.verdict)});
  auto dialled = co_await dial_decided(std::move(decision));
  if (!dialled) co_return dialled;
  // The policy may be another by now. One that forbids the flow has cut it; one that leads it elsewhere:
  if (EgressVerdict verdict = judge_again(); !verdict.allowed) {
    close_upstream();
    co_return std::unexpected(FlowRefusal{std::move(verdict)});
  }
  co_return dialled;
}

Task<std::expected<void, FlowRefusal>> Flow::dial_decided(FlowDecision decision) {
  const auto matcher = gate_->matcher();
  const std::string& rule = decision.verdict.rule;
  const std::string name = name_counts(decision, to_);
  std::vector<IpAddress> addresses{to_.address};
  if (decision.resolve) {
    auto found =
        co_await gate_->dns().dial_addresses(decision.name, to_.port, Deadline::after(resolve_limit));
    if (!found) co_return std::unexpected(FlowRefusal{refusal(resolve_failure(found.error().code), rule)});
    addresses = by_choice_of_guest(*found, to_.address);
  } else if (auto verdict = matcher->dialable(*gate_->loop().platform, to_.address, to_.port, name);
             !verdict.allowed) {
    co_return std::unexpected(FlowRefusal{std::move(verdict)});
  }
  LoopParts& loop = gate_->loop();
  const auto check = [&loop, matcher, name, port = to_.port](const IpAddress& address) {
    return matcher->dialable(*loop.platform, address, port, name).allowed;
  };
  auto dialled =
      co_await dial(std::move(addresses), to_.port, {check, loop.route}, Deadline::after(dial_limit));
  if (!dialled)
    co_return std::unexpected(
        FlowRefusal{refusal(reason_of(dialled.error()), rule), dialled.error() == DialFailure::refused});
  upstream_ = std::move(dialled->socket);
  address_ = dialled->address;
  name_ = decision.resolve ? decision.name : std::string();
  allowed_ = decision.verdict;
  co_return std::expected<void, FlowRefusal>();
}

bool Flow::leads_to(const FlowDecision& decision) const {
  if (!upstream_ || !upstream_->open()) return false;
  return name_ == (decision.resolve ? decision.name : std::string());
}

void Flow::close_upstream() {
  if (upstream_) upstream_->reset();
}

EgressVerdict Flow::judge_again() const {
  const EgressMatcher& matcher = *gate_->matcher();
  const PlatformDeny& platform = *gate_->loop().platform;
  // Nothing was said yet: whoever asks will get today's answer.
  if (!question_ || to_.port == dns_port) return {.allowed = true, .reason = allowed_.reason, .rule = {}};
  FlowDecision decision = decide(matcher, to_, *question_);
  if (!decision.verdict.allowed || !upstream_ || !upstream_->open()) return decision.verdict;
  EgressVerdict here = matcher.dialable(platform, address_, to_.port, name_counts(decision, to_));
  if (!here.allowed) return here;
  if (decision.resolve) {
    // What was dialled must be this name's: resolved for it, or told to the guest for it.
    const bool its_own = name_ == decision.name ||
                         (name_.empty() && !name_counts({.verdict = {}, .name = decision.name}, to_).empty());
    return its_own ? decision.verdict : refusal(EgressReason::deny_pin, decision.verdict.rule);
  }
  if (address_ == to_.address) return decision.verdict;
  return matcher.address(address_, to_.port, protocol_of(kind_));
}

Task<void> Flow::carry(Bytes sent_ahead) {
  const auto self = shared_from_this();
  log_allowed(allowed_);
  if (!sent_ahead.empty()) {
    count_.out += sent_ahead.size();
    const Millis pause = gate_->traffic().moved(false, sent_ahead.size(), system_clock().monotonic());
    std::span<const std::byte> left = sent_ahead;
    while (!left.empty()) {
      const ssize_t n = ::send(upstream_->fd(), left.data(), left.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN && errno != EINTR) co_return guest_->reset();
      if (n > 0) left = left.subspan(static_cast<std::size_t>(n));
      if (!left.empty()) co_await upstream_->writable();
    }
    Bytes().swap(sent_ahead);
    if (pause > Millis(0)) co_await sleep_for(pause);
  }
  co_await relay_rest();
}

Task<void> Flow::relay_rest() {
  const RelayEnd end = co_await relay({guest_, upstream_, gate_->loop().scratch, gate_->traffic(), count_});
  if (end == RelayEnd::quota) note_quota();
}

void Flow::note_quota() {
  if (!cut_) cut_ = refusal(EgressReason::deny_quota);
}

void Flow::cut(EgressVerdict why) {
  if (over_ || cut_) return;
  cut_ = std::move(why);
  guest_->reset();
  if (upstream_) upstream_->reset();
  cancel_.emit(asio::cancellation_type::terminal);
}

LogEntry Flow::entry(EgressVerdict verdict) const {
  LogEntry entry{.kind = kind_,
                 .host = to_.names.empty() ? std::string() : to_.names.front(),
                 .address = (verdict.allowed && upstream_ ? address_ : to_.address).text(),
                 .port = to_.port,
                 .allowed = verdict.allowed,
                 .reason = verdict.reason,
                 .rule = std::move(verdict.rule)};
  if (!question_) return entry;
  if (const auto* tls = std::get_if<TlsQuestion>(&*question_)) entry.host = tls->name;
  if (std::holds_alternative<NamelessQuestion>(*question_)) entry.host.clear();
  if (const auto* request = std::get_if<RequestQuestion>(&*question_)) {
    entry.host = request->name;
    entry.method = request->method;
    entry.path = request->path;
  }
  return entry;
}

void Flow::log_refusal(const EgressVerdict& verdict) {
  gate_->log_refusal(entry(verdict));
}

void Flow::log_allowed(EgressVerdict verdict) {
  was_allowed_ = true;
  gate_->count(verdict);
  gate_->log_allowed(entry(std::move(verdict)));
}

void Flow::log_end() {
  if (!was_allowed_) {
    if (cut_) gate_->log_refusal(entry(*cut_));
    return;
  }
  LogEntry end = entry(allowed_);
  end.method.clear();
  end.path.clear();
  end.bytes_in = count_.in;
  end.bytes_out = count_.out;
  if (cut_) {
    end.allowed = false;
    end.reason = cut_->reason;
    end.rule = cut_->rule;
    gate_->count(*cut_);
  }
  gate_->log_allowed(std::move(end));
}

Task<void> run_tcp(FlowPtr flow) {
  if (const auto opened = co_await flow->open(TcpQuestion{}); !opened) {
    flow->log_refusal(opened.error().verdict);
    flow->guest()->reset();
    co_return;
  }
  co_await flow->carry({});
}

}  // namespace space::netd

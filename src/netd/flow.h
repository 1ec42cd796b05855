// Flow: one connection of a guest, from the moment it was accepted: what it says about itself is read, the
// policy is asked, the destination dialled, and then its bytes go both ways. Belongs to its sandbox's gate
// and loop.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <expected>
#include <memory>
#include <variant>

#include "netd/egress_log.h"
#include "netd/fd_budget.h"
#include "netd/flow_decision.h"
#include "netd/flow_socket.h"
#include "netd/loop_parts.h"
#include "netd/pins.h"
#include "netd/relay.h"

namespace space::netd {

class SandboxGate;

// What was asked about the flow last.
struct TcpQuestion {};
struct TlsQuestion {
  std::string name;
};
struct NamelessQuestion {
  EgressReason reason;
  // tls once a whole hello was read: a rule may be for that alone.
  EgressProtocol spoken = EgressProtocol::tcp;
};
using FlowQuestion = std::variant<TcpQuestion, TlsQuestion, NamelessQuestion, RequestQuestion>;
FlowDecision decide(const EgressMatcher& matcher, const Destination& to, const FlowQuestion& question);

// Of DnsService::dial_addresses.
EgressReason resolve_failure(Code code);

// Why it goes no further. `answered`: by the destination itself, with an RST.
struct FlowRefusal {
  EgressVerdict verdict;
  bool answered = false;
};

class Flow : public std::enable_shared_from_this<Flow> {
 public:
  static constexpr int descriptors = 3;  // the guest's and two attempts to reach the destination

  Flow(std::shared_ptr<SandboxGate> gate, FlowSocketPtr guest, Destination to, FdBudget::Share share);

  // Runs until the flow is over; the gate's flow_ended follows in any case.
  static void start(std::shared_ptr<Flow> flow, EgressProtocol expected);

  // Asks the policy in force.
  FlowDecision ask(FlowQuestion question);
  // Asks and, if it is allowed, dials. Afterwards upstream() is connected.
  Task<std::expected<void, FlowRefusal>> open(FlowQuestion question);
  // May what is connected go on, by the policy and platform in force?
  EgressVerdict judge_again() const;
  bool leads_to(const FlowDecision& decision) const;  // upstream() is what it says
  void close_upstream();

  // The rest of the flow, as it is; `sent_ahead`: what was read of the guest already.
  Task<void> carry(Bytes sent_ahead);
  Task<void> relay_rest();

  void note_quota();  // it ends because the sandbox's traffic is used up
  // Ends it now, with RST both ways.
  void cut(EgressVerdict why);

  SandboxGate& gate() { return *gate_; }
  const FlowSocketPtr& guest() const { return guest_; }
  const FlowSocketPtr& upstream() const { return upstream_; }
  const Destination& to() const { return to_; }
  RelayCount& count() { return count_; }

  // The entry that says what became of it, in the words of the question asked last.
  LogEntry entry(EgressVerdict verdict) const;
  void log_refusal(const EgressVerdict& verdict);
  void log_allowed(EgressVerdict verdict);
  void log_end();
  bool over() const { return over_; }
  void set_over() { over_ = true; }

 private:
  Task<std::expected<void, FlowRefusal>> dial_decided(FlowDecision decision);
  Task<void> run(EgressProtocol expected);

  std::shared_ptr<SandboxGate> gate_;
  FlowSocketPtr guest_;
  FlowSocketPtr upstream_;
  Destination to_;
  FdBudget::Share share_;
  Pins::Hold hold_;
  boost::asio::cancellation_signal cancel_;

  std::optional<FlowQuestion> question_;
  LogKind kind_ = LogKind::tcp;
  // Of upstream_.
  IpAddress address_;
  std::string name_;       // what it was resolved for, "" when it is the destination itself
  EgressVerdict allowed_;  // by what
  bool was_allowed_ = false;
  RelayCount count_;
  std::optional<EgressVerdict> cut_;
  bool over_ = false;
};

using FlowPtr = std::shared_ptr<Flow>;

// The kinds of flow. Each returns when the flow is over.
Task<void> run_tcp(FlowPtr flow);
Task<void> run_tls(FlowPtr flow);
Task<void> run_http(FlowPtr flow);

}  // namespace space::netd

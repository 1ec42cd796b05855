// SandboxGate: the only way out of one sandbox. Holds the sockets of its slot, judges every connection and
// question by its policy, and counts. Belongs to one loop; its flows keep it alive.
#pragma once

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <set>
#include <string>

#include "netd/dns_service.h"
#include "netd/flow.h"

namespace space::netd {

// Of a network slot (api/noded.h, slot_open): transparent, non-blocking, the TCP ones listening.
struct SlotSockets {
  Fd tcp4, tcp6, udp4, udp6;
};

struct GateCounters {
  std::uint64_t flows_total = 0;
  std::uint64_t denied_total = 0;
  std::uint64_t dns_queries = 0;
  std::uint64_t dns_refused = 0;
  std::array<std::uint64_t, egress_reasons> by_reason{};  // of flows, requests and questions
};

class SandboxGate : public DnsObserver, public std::enable_shared_from_this<SandboxGate> {
 public:
  // `loop` outlives everything on it.
  static std::shared_ptr<SandboxGate> make(LoopParts& loop, std::string id);
  ~SandboxGate() override = default;

  // Counts from now on; what lives and is no longer allowed is closed when it returns: how many.
  Task<std::size_t> set_policy(std::shared_ptr<const EgressMatcher> matcher, std::uint64_t generation);
  // The platform's deny set has changed.
  Task<std::size_t> set_platform();

  // Takes the place of the sockets there were, whose flows are closed. exhausted: no descriptors are left.
  Task<Result<void>> attach(SlotSockets sockets);
  Task<void> detach();
  bool attached() const { return attachment_ != nullptr; }

  const std::string& id() const { return id_; }
  std::uint64_t generation() const { return generation_; }
  const std::shared_ptr<const EgressMatcher>& matcher() const { return matcher_; }
  LoopParts& loop() { return loop_; }
  const std::shared_ptr<Pins>& pins() { return pins_; }
  DnsService& dns() { return *dns_; }
  std::shared_ptr<DnsService> dns_ptr() { return dns_; }
  Traffic& traffic() { return traffic_; }
  const GateCounters& counters() const { return counters_; }
  std::size_t flows() const { return flows_.size(); }

  void log_allowed(LogEntry entry);
  void log_refusal(LogEntry entry);  // and counts it
  void count(const EgressVerdict& verdict);
  EgressLog& log() { return log_; }
  Event& log_changed() { return log_changed_; }

  void flow_ended(Flow& flow);
  void dns_query(const DnsDecision& decision) override;

 private:
  struct Attachment;
  SandboxGate(LoopParts& loop, std::string id);
  static Task<void> accept_loop(std::shared_ptr<SandboxGate> gate, std::shared_ptr<Attachment> attachment,
                                std::size_t listener);
  bool admit(Fd connected);  // false: refused by a limit
  std::optional<EgressReason> over_limit();
  std::optional<Destination> destination_of(int fd);
  void refuse(Fd connected, const Destination& to, const EgressVerdict& verdict);
  Task<std::size_t> judge_all_again();
  Task<void> end_flows(std::vector<FlowPtr> flows);

  LoopParts& loop_;
  const std::string id_;
  std::shared_ptr<const EgressMatcher> matcher_;
  std::uint64_t generation_ = 0;
  bool reads_flows_ = false;  // some rule asks for more than an address
  std::shared_ptr<Pins> pins_;
  std::shared_ptr<DnsService> dns_;
  Traffic traffic_;
  TokenBucket new_flows_;
  std::set<FlowPtr> flows_;
  Event flows_changed_;
  std::shared_ptr<Attachment> attachment_;
  GateCounters counters_;
  EgressLog log_;
  Event log_changed_;
};

}  // namespace space::netd

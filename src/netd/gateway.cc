#include "netd/gateway.h"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>

#include "base/log.h"

namespace space::netd {
namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;

constexpr Millis slot_limit = 10s;
constexpr Millis recover_pause = 200ms;
constexpr Millis resolve_limit = 5s;

// `task` on the loop of `executor`; it cannot be cancelled from here, where another thread runs.
template <class T>
Task<T> on_loop(Executor executor, Task<T> task) {
  co_return co_await asio::co_spawn(
      executor, std::move(task),
      asio::bind_cancellation_slot(asio::cancellation_slot(), asio::use_awaitable));
}

Task<void> copy_pins(std::shared_ptr<SandboxGate> from, std::shared_ptr<Pins>* out) {
  *out = std::make_shared<Pins>();
  (*out)->copy_from(*from->pins());
  co_return;
}

Task<void> take_pins(std::shared_ptr<SandboxGate> gate, std::shared_ptr<Pins> pins) {
  if (gate->pins()->size() == 0) gate->pins()->copy_from(*pins);
  co_return;
}

Task<std::size_t> set_policy_of(std::shared_ptr<SandboxGate> gate,
                                std::shared_ptr<const EgressMatcher> matcher, std::uint64_t generation) {
  co_return co_await gate->set_policy(std::move(matcher), generation);
}

Task<Result<void>> attach_to(std::shared_ptr<SandboxGate> gate, std::shared_ptr<SlotSockets> sockets) {
  co_return co_await gate->attach(std::move(*sockets));
}

Task<void> detach_from(std::shared_ptr<SandboxGate> gate) {
  co_await gate->detach();
}

Task<GateStatus> status_of(std::shared_ptr<SandboxGate> gate) {
  co_return GateStatus{gate->id(), gate->generation(), gate->attached(), gate->flows()};
}

Task<GateStats> stats_of(std::shared_ptr<SandboxGate> gate) {
  co_return GateStats{gate->flows(), gate->counters(), gate->traffic().bytes_in(),
                      gate->traffic().bytes_out()};
}

Task<EgressLog::Page> read_log(std::shared_ptr<SandboxGate> gate, std::uint64_t after, std::size_t limit,
                               Deadline wait) {
  EgressLog::Page page = gate->log().read(after, limit);
  while (page.entries.empty() && !wait.passed()) {
    co_await gate->log_changed().wait(wait);
    page = gate->log().read(after, limit);
  }
  co_return page;
}

Task<void> set_platform_of(std::shared_ptr<SandboxGate> gate, LoopParts* loop,
                           std::shared_ptr<const PlatformDeny> platform) {
  loop->platform = std::move(platform);
  if (gate) co_await gate->set_platform();
}

EgressVerdict verdict_of(const EgressMatcher& matcher, const TestQuestion& question) {
  const bool request = question.protocol == EgressProtocol::http;
  if (question.host.address) {
    return request ? matcher.http(*question.host.address, question.port, "GET", question.path)
                   : matcher.address(*question.host.address, question.port, question.protocol);
  }
  return request ? matcher.http(question.host.name, question.port, "GET", question.path)
                 : matcher.name(question.host.name, question.port, question.protocol);
}

// As a flow would fare, but nothing is dialled.
Task<TestAnswer> test_on(std::shared_ptr<SandboxGate> gate, TestQuestion question) {
  const auto matcher = gate->matcher();
  TestAnswer answer{{}, {}, gate->generation()};
  if (question.host.address) {  // what is closed to all goes first, as right after accept
    answer.verdict = matcher->dialable(*gate->loop().platform, *question.host.address, question.port);
    if (!answer.verdict.allowed) co_return answer;
  }
  answer.verdict = verdict_of(*matcher, question);
  if (!answer.verdict.allowed) co_return answer;
  if (question.host.address) {
    answer.addresses.push_back(question.host.address->text());
    co_return answer;
  }
  const auto found =
      co_await gate->dns().dial_addresses(question.host.name, question.port, Deadline::after(resolve_limit));
  if (!found) {
    answer.verdict.allowed = false;
    answer.verdict.reason = resolve_failure(found.error().code);
    co_return answer;
  }
  for (const IpAddress& address : *found) answer.addresses.push_back(address.text());
  co_return answer;
}

std::unexpected<Error> unknown(const std::string& id) {
  return fail(Code::not_found, "the gateway has no policy for sandbox {}", id);
}

}  // namespace

// One call at a time for an id, in their order. Ends with its holder.
class Gateway::Turn {
 public:
  Turn(Gateway& gateway, std::string id) : gateway_(&gateway), id_(std::move(id)) {}
  Turn(Turn&& other) noexcept : gateway_(std::exchange(other.gateway_, nullptr)), id_(std::move(other.id_)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (gateway_ == nullptr) return;
    const auto ended = gateway_->turns_.extract(id_);
    if (ended) ended.mapped()->notify_all();
  }

 private:
  Gateway* gateway_;
  std::string id_;
};

Task<Gateway::Turn> Gateway::turn(std::string id) {
  while (true) {
    const auto busy = turns_.find(id);
    if (busy == turns_.end()) break;
    const auto event = busy->second;
    co_await event->wait();
  }
  turns_.emplace(id, std::make_shared<Event>(parts_.loops.front()->executor));
  co_return Turn(*this, std::move(id));
}

Gateway::Entry* Gateway::find(const std::string& id) {
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

LoopParts& Gateway::least_used_loop() {
  std::map<const LoopParts*, std::size_t> used;
  for (auto& [id, entry] : entries_) ++used[&entry.gate->loop()];
  return **std::ranges::min_element(parts_.loops, {}, [&](const LoopParts* loop) { return used[loop]; });
}

// On the disk first, then in force: after an error the old policy is both.
Task<Result<std::size_t>> Gateway::enforce(std::string id, StoredPolicy stored) {
  Entry* entry = find(id);
  if (entry != nullptr && entry->stored.generation == stored.generation &&
      entry->stored.policy == stored.policy)
    co_return std::size_t{0};
  SPACE_CO_CHECK(co_await run_blocking([&] { return parts_.files.write(id, stored); }));
  auto matcher = std::make_shared<const EgressMatcher>(stored.policy);
  if (entry == nullptr) {
    auto gate = SandboxGate::make(least_used_loop(), id);
    entry = &entries_.emplace(id, Entry{std::move(gate), {}}).first->second;
  }
  const auto gate = entry->gate;
  entry->stored = stored;
  co_return co_await on_loop(gate->loop().executor,
                             set_policy_of(gate, std::move(matcher), stored.generation));
}

Task<Result<void>> Gateway::open_slot(std::string id) {
  auto sockets = co_await parts_.slots.open(id, Deadline::after(slot_limit));
  const auto gate = find(id)->gate;
  const auto status = co_await on_loop(gate->loop().executor, status_of(gate));
  if (!sockets && sockets.error().code == Code::conflict && status.attached) co_return Result<void>();
  if (!sockets) co_return std::unexpected(std::move(sockets).error());
  co_return co_await on_loop(gate->loop().executor,
                             attach_to(gate, std::make_shared<SlotSockets>(*std::move(sockets))));
}

Task<Result<void>> Gateway::attach(std::string id, StoredPolicy stored, std::optional<std::string> pins_of) {
  const Turn turn = co_await this->turn(id);
  std::shared_ptr<Pins> pins;
  if (const Entry* origin = pins_of ? find(*pins_of) : nullptr) {
    const auto from = origin->gate;
    co_await on_loop(from->loop().executor, copy_pins(from, &pins));
  }
  SPACE_CO_CHECK(co_await enforce(id, std::move(stored)));
  const auto gate = find(id)->gate;
  if (pins) co_await on_loop(gate->loop().executor, take_pins(gate, pins));
  co_return co_await open_slot(id);
}

Task<Result<std::size_t>> Gateway::set_policy(std::string id, StoredPolicy stored) {
  const Turn turn = co_await this->turn(id);
  const Entry* entry = find(id);
  if (entry == nullptr) co_return unknown(id);
  if (stored.generation < entry->stored.generation)
    co_return fail(Code::conflict, "generation {} is older than {}, which is in force", stored.generation,
                   entry->stored.generation);
  co_return co_await enforce(id, std::move(stored));
}

Task<Result<void>> Gateway::detach(std::string id) {
  const Turn turn = co_await this->turn(id);
  const Entry* entry = find(id);
  if (entry == nullptr) co_return Result<void>();
  const auto gate = entry->gate;
  co_await on_loop(gate->loop().executor, detach_from(gate));
  co_return Result<void>();
}

Task<Result<void>> Gateway::forget(std::string id) {
  const Turn turn = co_await this->turn(id);
  SPACE_CO_CHECK(co_await run_blocking([&] { return parts_.files.remove(id); }));
  const auto entry = entries_.extract(id);
  if (!entry) co_return Result<void>();
  const auto gate = entry.mapped().gate;
  co_await on_loop(gate->loop().executor, detach_from(gate));
  co_return Result<void>();
}

Task<std::vector<GateStatus>> Gateway::list() {
  std::vector<std::shared_ptr<SandboxGate>> gates;
  for (const auto& [id, entry] : entries_) gates.push_back(entry.gate);
  std::vector<GateStatus> all;
  for (const auto& gate : gates) all.push_back(co_await on_loop(gate->loop().executor, status_of(gate)));
  co_return all;
}

Task<Result<TestAnswer>> Gateway::test(std::string id, TestQuestion question) {
  const Entry* entry = find(id);
  if (entry == nullptr) co_return unknown(id);
  const auto gate = entry->gate;
  co_return co_await on_loop(gate->loop().executor, test_on(gate, std::move(question)));
}

Task<Result<EgressLog::Page>> Gateway::log(std::string id, std::uint64_t after, std::size_t limit,
                                           Deadline wait) {
  const Entry* entry = find(id);
  if (entry == nullptr) co_return unknown(id);
  const auto gate = entry->gate;
  co_return co_await on_loop(gate->loop().executor, read_log(gate, after, limit, wait));
}

Task<Result<GateStats>> Gateway::stats(std::string id) {
  const Entry* entry = find(id);
  if (entry == nullptr) co_return unknown(id);
  const auto gate = entry->gate;
  co_return co_await on_loop(gate->loop().executor, stats_of(gate));
}

Task<void> Gateway::set_platform(std::shared_ptr<const PlatformDeny> platform) {
  for (LoopParts* loop : parts_.loops)
    co_await on_loop(loop->executor, set_platform_of(nullptr, loop, platform));
  std::vector<std::shared_ptr<SandboxGate>> gates;
  for (const auto& [id, entry] : entries_) gates.push_back(entry.gate);
  for (const auto& gate : gates)
    co_await on_loop(gate->loop().executor, set_platform_of(gate, &gate->loop(), platform));
}

Task<void> Gateway::recover_one(std::string id, StoredPolicy stored) {
  const Turn turn = co_await this->turn(id);
  if (find(id) != nullptr) co_return;  // sandboxd was here first
  auto gate = SandboxGate::make(least_used_loop(), id);
  auto matcher = std::make_shared<const EgressMatcher>(stored.policy);
  const std::uint64_t generation = stored.generation;
  entries_.emplace(id, Entry{gate, std::move(stored)});
  co_await on_loop(gate->loop().executor, set_policy_of(gate, std::move(matcher), generation));
}

Task<void> Gateway::recover() {
  auto stored = co_await run_blocking([this] { return parts_.files.read_all(); });
  if (!stored) co_return log::error("policies are not read", {log::Field(stored.error())});
  for (auto& [id, policy] : *stored) co_await recover_one(id, std::move(policy));
  auto slots = co_await parts_.slots.list(Deadline::after(slot_limit));
  while (!slots) {
    log::warn("waiting for the node manager", {log::Field(slots.error())});
    co_await sleep_for(recover_pause);
    slots = co_await parts_.slots.list(Deadline::after(slot_limit));
  }
  std::size_t opened = 0;
  for (const std::string& id : *slots) {
    const Turn turn = co_await this->turn(id);
    const Entry* entry = find(id);
    if (entry == nullptr) continue;  // without a policy nothing is let out
    const auto gate = entry->gate;
    if ((co_await on_loop(gate->loop().executor, status_of(gate))).attached) continue;
    if (const auto done = co_await open_slot(id)) {
      ++opened;
    } else {
      log::error("a slot is not opened", {{"sandbox", id}, log::Field(done.error())});
    }
  }
  log::info("recovered", {{"policies", stored->size()}, {"slots", slots->size()}, {"opened", opened}});
}

}  // namespace space::netd

// EventLog: the last changes of this node's sandboxes, for control planes that poll. Bounded; in memory.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/lifecycle.h"
#include "net/task.h"

namespace space {

struct SandboxEvent {
  std::uint64_t sequence = 0;
  std::string id;
  State state = State::creating;
  std::string reason;
  bool idle = false;  // paused by the node itself
  Wall at{};
};

struct EventPage {
  std::vector<SandboxEvent> events;
  std::uint64_t next = 0;  // what to ask for next
  bool gap = false;        // some were lost since `after`: list the sandboxes
};

class EventLog {
 public:
  static constexpr std::size_t kept = 4096;

  // Sequences start at the wall clock's microseconds, so they grow across restarts of the process.
  explicit EventLog(const Executor& executor, const Clock& clock = system_clock());

  void publish(std::string id, State state, std::string reason, bool idle = false);
  // Events after `after`, waiting for the first one until the deadline; then an empty page.
  Task<EventPage> wait(std::uint64_t after, Deadline deadline);

 private:
  EventPage page(std::uint64_t after) const;

  const Clock& clock_;
  std::deque<SandboxEvent> events_;  // consecutive sequences
  std::uint64_t last_;
  Event published_;
};

}  // namespace space

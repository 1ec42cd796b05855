#include "sandboxd/events.h"

namespace space {

EventLog::EventLog(const Executor& executor, const Clock& clock)
    : clock_(clock),
      last_(static_cast<std::uint64_t>(
          std::chrono::duration_cast<std::chrono::microseconds>(clock.wall().time_since_epoch()).count())),
      published_(executor) {}

void EventLog::publish(std::string id, State state, std::string reason, bool idle) {
  events_.push_back({++last_, std::move(id), state, std::move(reason), idle, clock_.wall()});
  if (events_.size() > kept) events_.pop_front();
  published_.notify_all();
}

EventPage EventLog::page(std::uint64_t after) const {
  const std::uint64_t first = last_ + 1 - events_.size();
  EventPage page{{}, last_, after + 1 < first || after > last_};
  for (const SandboxEvent& event : events_)
    if (page.gap || event.sequence > after) page.events.push_back(event);
  return page;
}

Task<EventPage> EventLog::wait(std::uint64_t after, Deadline deadline) {
  while (after == last_ && co_await published_.wait(deadline)) {
  }
  co_return page(after);
}

}  // namespace space

// Turnstile: at most N pass at a time. Those who come for the same request take turns with everybody else: a
// place goes to whoever waits for the request that has the fewest inside, and among those to the first who
// came. Belongs to the loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "net/task.h"

namespace space {

class Turnstile {
 public:
  Turnstile(const Executor& executor, std::size_t limit) : executor_(executor), free_(limit) {}
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;

  // Gives the place back. Outlived by the turnstile.
  class Place {
   public:
    Place(Turnstile* turnstile, std::string request) : turnstile_(turnstile), request_(std::move(request)) {}
    Place(Place&& other) noexcept
        : turnstile_(std::exchange(other.turnstile_, nullptr)), request_(std::move(other.request_)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (turnstile_ != nullptr) turnstile_->leave(request_);
    }

   private:
    Turnstile* turnstile_;
    std::string request_;
  };

  // `request`: what many come for at once, such as the snapshot that all children of a fork begin from;
  // empty: nobody else comes for it. deadline: nobody left in time.
  Task<Result<Place>> enter(Deadline deadline, std::string request = {}) {
    if (free_ > 0 && waiting_.empty()) {
      --free_;
      go_in(request);
      co_return Place(this, std::move(request));
    }
    const auto turn = std::make_shared<Turn>(executor_, request);
    waiting_.push_back(turn);
    while (!turn->called)
      if (!co_await turn->event.wait(deadline) && !turn->called) {
        std::erase(waiting_, turn);
        co_return fail(Code::deadline, "too many others were first");
      }
    co_return Place(this, std::move(request));
  }

  bool busy() const { return free_ == 0; }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Turn {
    Turn(const Executor& executor, std::string for_request)
        : event(executor), request(std::move(for_request)) {}
    Event event;
    std::string request;
    bool called = false;
  };

  void go_in(const std::string& request) {
    if (!request.empty()) ++inside_[request];
  }
  std::size_t inside(const std::shared_ptr<Turn>& turn) const {
    const auto found = inside_.find(turn->request);
    return found == inside_.end() ? 0 : found->second;
  }

  // The place goes to one that waits, without being free in between.
  void leave(const std::string& request) {
    if (const auto found = inside_.find(request); found != inside_.end() && --found->second == 0)
      inside_.erase(found);
    if (waiting_.empty()) {
      ++free_;
      return;
    }
    const auto next = std::ranges::min_element(
        waiting_, {}, [this](const std::shared_ptr<Turn>& turn) { return inside(turn); });
    const std::shared_ptr<Turn> turn = *next;
    waiting_.erase(next);
    go_in(turn->request);
    turn->called = true;
    turn->event.notify_all();
  }

  Executor executor_;
  std::size_t free_;
  std::deque<std::shared_ptr<Turn>> waiting_;
  std::map<std::string, std::size_t> inside_;  // of each request
};

}  // namespace space

// Turnstile: at most N pass at a time, the others in the order in which they came. Belongs to the loop.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>

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
    explicit Place(Turnstile* turnstile) : turnstile_(turnstile) {}
    Place(Place&& other) noexcept : turnstile_(std::exchange(other.turnstile_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (turnstile_ != nullptr) turnstile_->leave();
    }

   private:
    Turnstile* turnstile_;
  };

  // deadline: nobody left in time.
  Task<Result<Place>> enter(Deadline deadline) {
    if (free_ > 0 && waiting_.empty()) {
      --free_;
      co_return Place(this);
    }
    const auto turn = std::make_shared<Turn>(executor_);
    waiting_.push_back(turn);
    while (!turn->called)
      if (!co_await turn->event.wait(deadline) && !turn->called) {
        std::erase(waiting_, turn);
        co_return fail(Code::deadline, "too many others were first");
      }
    co_return Place(this);
  }

  bool busy() const { return free_ == 0; }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Turn {
    explicit Turn(const Executor& executor) : event(executor) {}
    Event event;
    bool called = false;
  };

  // The place goes to the first that waits, without being free in between.
  void leave() {
    if (waiting_.empty()) {
      ++free_;
      return;
    }
    waiting_.front()->called = true;
    waiting_.front()->event.notify_all();
    waiting_.pop_front();
  }

  Executor executor_;
  std::size_t free_;
  std::deque<std::shared_ptr<Turn>> waiting_;
};

}  // namespace space

// DiskFreezer: the root file system stands still, flushed and whole, while the host copies its disk. Never
// for longer than was said at the start: a thread of its own ends it, whether or not anybody still asks, and
// the daemon's loop never waits for a file system.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "net/task.h"

namespace space::guest {

class DiskFreezer {
 public:
  struct Calls {  // each blocks
    std::function<void()> flush;
    std::function<Result<void>()> freeze;
    std::function<Result<void>()> thaw;
  };
  // The root file system. Its flush does nothing while little is unwritten: a freeze flushes too, but whoever
  // writes waits for that one.
  static Calls root_calls();

  explicit DiskFreezer(const Executor& executor, Calls calls = root_calls());
  ~DiskFreezer();  // thaws; waits for calls under way
  DiskFreezer(const DiskFreezer&) = delete;
  DiskFreezer& operator=(const DiskFreezer&) = delete;

  // Completes when the disk is frozen, which it stays until thaw(), at most until `limit` from now. deadline:
  // not frozen within half of it; if it gets so far later, it is thawed at once. conflict: a thaw came
  // meanwhile, or an earlier freeze does not end. One that still holds is ended first.
  Task<Result<void>> freeze(Millis limit);
  // Whatever was asked for is over; completes when no thread of this touches the disk any more (it is frozen
  // by nobody and will not be), or at the deadline. true: it was frozen until now without a break.
  Task<bool> thaw(Deadline deadline);
  // False: no freeze holds or is under way.
  bool busy() const;

 private:
  struct Hold;
  static void run(const std::shared_ptr<Hold>& hold, const Executor& executor);

  Executor executor_;
  Calls calls_;
  std::shared_ptr<Hold> hold_;  // the last one
  std::thread thread_;          // its; joined once it has ended
};

}  // namespace space::guest

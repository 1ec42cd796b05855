// Blocking work that may never end (a file system that does not answer): done on a thread of its own, waited
// for until a deadline, and then left behind. At most a few are left behind at a time.
#pragma once

#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>

#include "net/task.h"

namespace space::guest {

// Runs `job` on a thread beside the loop. One thread stays when its job is done: to wake it is much cheaper
// than to make one, most of all in a guest that was just restored under emulation. false: as many as may be
// are at work, and it was not begun.
bool begin_detached(std::function<void()> job);

// What `work` returned; nullopt: it goes on behind the deadline, or too many others do and it was not begun.
// `work` owns all it touches. The loop must outlive it.
template <class F>
Task<std::optional<std::invoke_result_t<F>>> detached_work(F work, Deadline deadline) {
  using T = std::invoke_result_t<F>;
  struct Shared {
    Shared(const Executor& executor, F f) : work(std::move(f)), done(executor) {}
    F work;
    Event done;
    std::optional<T> result;
  };
  const Executor executor = co_await boost::asio::this_coro::executor;
  auto shared = std::make_shared<Shared>(executor, std::move(work));
  const bool begun = begin_detached([mine = shared, executor]() mutable {
    auto result = std::make_shared<T>(mine->work());
    // The thread lets go of what is the loop's before the loop may end.
    boost::asio::post(executor, [shared = std::move(mine), result = std::move(result)] {
      shared->result.emplace(std::move(*result));
      shared->done.notify_all();
    });
  });
  if (!begun) co_return std::nullopt;
  while (!shared->result)
    if (!co_await shared->done.wait(deadline)) break;
  co_return std::move(shared->result);
}

}  // namespace space::guest

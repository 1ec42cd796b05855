// Blocking work that may never end (a file system that does not answer): done on a thread of its own, waited
// for until a deadline, and then left behind. At most a few are left behind at a time.
#pragma once

#include <atomic>
#include <boost/asio/post.hpp>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>

#include "net/task.h"

namespace space::guest {

inline constexpr int detached_threads_max = 8;
inline std::atomic<int> detached_threads = 0;

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
  if (detached_threads.fetch_add(1) >= detached_threads_max) {
    detached_threads.fetch_sub(1);
    co_return std::nullopt;
  }
  const Executor executor = co_await boost::asio::this_coro::executor;
  const auto shared = std::make_shared<Shared>(executor, std::move(work));
  std::thread([shared, executor]() mutable {
    auto result = std::make_shared<T>(shared->work());
    // The thread lets go of what is the loop's before the loop may end.
    boost::asio::post(executor, [shared = std::move(shared), result = std::move(result)] {
      shared->result.emplace(std::move(*result));
      shared->done.notify_all();
    });
    detached_threads.fetch_sub(1);
  }).detach();
  while (!shared->result)
    if (!co_await shared->done.wait(deadline)) break;
  co_return std::move(shared->result);
}

}  // namespace space::guest

// race: a task against an event.
#pragma once

#include <optional>

#include "net/task.h"

namespace space {

// Runs `task`; when `event` is notified first, cancels it. nullopt: the event won. `event` outlives the wait.
template <class T>
Task<std::optional<T>> race(Task<T> task, Event& event) {
  namespace asio = boost::asio;
  const Executor executor = co_await asio::this_coro::executor;
  std::optional<T> result;
  co_await asio::experimental::make_parallel_group(
      asio::co_spawn(executor, detail::store_result(std::move(task), &result), asio::deferred),
      asio::co_spawn(executor, event.wait(), asio::deferred))
      .async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  co_return result;
}

}  // namespace space

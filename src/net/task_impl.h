// Bodies of task.h's templates. Include task.h, not this.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <optional>
#include <type_traits>

namespace space {
namespace detail {

// The pool of the loop behind `executor`; joined when the loop is destroyed, so that no work outlives it.
boost::asio::thread_pool& blocking_pool(const Executor& executor);

template <class T>
Task<void> store_result(Task<T> task, std::optional<T>* out) {
  out->emplace(co_await std::move(task));
}

}  // namespace detail

template <class T>
Task<Result<T>> with_deadline(Task<Result<T>> task, Deadline deadline, std::string what) {
  namespace asio = boost::asio;
  const Executor executor = co_await asio::this_coro::executor;
  const auto budget = std::chrono::ceil<Millis>(deadline.when() - system_clock().monotonic());
  asio::steady_timer timer(executor, deadline.when());
  std::optional<Result<T>> result;
  auto [order, failure, timer_error] =
      co_await asio::experimental::make_parallel_group(
          asio::co_spawn(executor, detail::store_result(std::move(task), &result), asio::deferred),
          timer.async_wait(asio::deferred))
          .async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  const bool late = !timer_error && order[0] == 1;
  if (result && (*result || !late))
    co_return *std::move(result);  // a success that crossed the deadline counts
  if (late)
    co_return fail(Code::deadline, "{} took longer than {} ms", what,
                   std::max<Millis::rep>(budget.count(), 0));
  std::rethrow_exception(failure);  // cancelled from outside: unwind further
}

template <class F>
auto run_blocking(F work) -> Task<std::invoke_result_t<F>> {
  namespace asio = boost::asio;
  using T = std::invoke_result_t<F>;
  using Stored = std::conditional_t<std::is_void_v<T>, bool, T>;
  const Executor executor = co_await asio::this_coro::executor;
  std::optional<Stored> result;
  // Work cannot be interrupted, so a cancellation waits for it: `work` and `result` live in this frame.
  auto start = [&executor, &work, &result](auto handler) {
    asio::post(detail::blocking_pool(executor), [handler = std::move(handler), &work, &result,
                                                 guard = asio::make_work_guard(executor)]() mutable noexcept {
      if constexpr (std::is_void_v<T>) {
        work();
        result.emplace(true);
      } else {
        result.emplace(work());
      }
      asio::post(guard.get_executor(), std::move(handler));
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(start, asio::use_awaitable);
  if constexpr (!std::is_void_v<T>) co_return *std::move(result);
}

}  // namespace space

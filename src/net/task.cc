#include "net/task.h"

#include <boost/asio/execution/context.hpp>
#include <boost/asio/query.hpp>
#include <cstdlib>
#include <string>

#include "base/log.h"

namespace space {
namespace asio = boost::asio;

namespace {

constexpr std::size_t blocking_threads = 4;

class BlockingPool final : public asio::execution_context::service {
 public:
  using key_type = BlockingPool;
  static asio::execution_context::id id;

  explicit BlockingPool(asio::execution_context& context) : service(context), pool_(blocking_threads) {}
  asio::thread_pool& pool() { return pool_; }

 private:
  void shutdown() override { pool_.join(); }

  asio::thread_pool pool_;
};

asio::execution_context::id BlockingPool::id;

[[noreturn]] void die(std::string_view name, const std::exception_ptr& failure) {
  std::string what = "unknown exception";
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& e) {
    what = e.what();
  } catch (...) {
  }
  log::error("task failed", {{"task", name}, {"error", what}});
  std::abort();
}

// A wait without an error to return must not look as if it had come to its end.
void unwind_if_cancelled(asio::cancellation_state state) {
  if (state.cancelled() == asio::cancellation_type::none) return;
  throw boost::system::system_error(asio::error::operation_aborted);
}

}  // namespace

asio::thread_pool& detail::blocking_pool(const Executor& executor) {
  return asio::use_service<BlockingPool>(asio::query(executor, asio::execution::context)).pool();
}

void spawn(const Executor& executor, std::string_view name, Task<void> task) {
  asio::co_spawn(executor, std::move(task), [name = std::string(name)](const std::exception_ptr& failure) {
    if (failure) die(name, failure);
  });
}

Task<void> sleep_until(Deadline deadline) {
  asio::steady_timer timer(co_await asio::this_coro::executor, deadline.when());
  co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  unwind_if_cancelled(co_await asio::this_coro::cancellation_state);
}

Task<void> sleep_for(Millis duration) {
  return sleep_until(Deadline::after(duration));
}

// Neither wait touches the event after it was woken: notifying and then destroying the event is allowed.
Task<void> Event::wait() {
  co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
  unwind_if_cancelled(co_await asio::this_coro::cancellation_state);
}

Task<bool> Event::wait(Deadline deadline) {
  asio::steady_timer limit(timer_.get_executor(), deadline.when());
  auto [order, notified, expired] = co_await asio::experimental::make_parallel_group(
                                        timer_.async_wait(asio::deferred), limit.async_wait(asio::deferred))
                                        .async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  unwind_if_cancelled(co_await asio::this_coro::cancellation_state);
  co_return order[0] == 0;
}

}  // namespace space

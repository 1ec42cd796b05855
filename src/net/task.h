// Task<T>: a coroutine on a process's event loop, and the waits with a deadline that go with it.
//
// Every process has one single-threaded boost::asio::io_context. All classes of net/ belong to the
// loop of the executor they were made with and are touched from no other thread.
//
// Cancellation unwinds: in a cancelled coroutine the wait under way ends, and the next co_await throws. No
// code of ours catches that but with_deadline, so destructors run and nothing after it does.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <functional>
#include <memory>
#include <utility>

#include "base/deadline.h"
#include "base/result.h"

namespace space {

template <class T>
using Task = boost::asio::awaitable<T>;
using Executor = boost::asio::any_io_executor;

// Starts `task` on `executor`; an exception that escapes it is logged under `name` and aborts (our
// functions do not throw, so it is a programming error).
void spawn(const Executor& executor, std::string_view name, Task<void> task);

Task<void> sleep_for(Millis duration);
Task<void> sleep_until(Deadline deadline);

// Runs `task`; when the deadline passes first, cancels it and answers Code::deadline "<what> took longer than
// N ms". A task that succeeds all the same keeps its result. `task` must stop promptly on asio cancellation
// (all waits of net/ do).
template <class T>
Task<Result<T>> with_deadline(Task<Result<T>> task, Deadline deadline, std::string what);

// A one-loop event: any number of coroutines wait, `notify_all` wakes them all. No thread may share it.
class Event {
 public:
  explicit Event(const Executor& executor) : timer_(executor, boost::asio::steady_timer::time_point::max()) {}
  Task<void> wait();                   // until the next notify_all
  Task<bool> wait(Deadline deadline);  // false: deadline passed
  void notify_all() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
};

// Runs blocking work (a file sync, an SQLite transaction) on a small thread pool and resumes on the caller's
// loop. `work` must not touch anything of the loop. Returns what `work` returned. Work cannot be interrupted:
// a cancelled caller, and the loop's own end, wait for it.
template <class F>
auto run_blocking(F work) -> Task<std::invoke_result_t<F>>;

}  // namespace space

#include "net/task_impl.h"

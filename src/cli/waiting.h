// Waiting: what a command is at, said once it takes longer than a second, on a terminal only.
#pragma once

#include <string>

#include "net/task.h"

namespace space::cli {

class WaitingLine {
 public:
  explicit WaitingLine(const Executor& executor, std::string what);  // "pausing i…"
  ~WaitingLine();                                                    // leaves the line clean
  WaitingLine(const WaitingLine&) = delete;
  WaitingLine& operator=(const WaitingLine&) = delete;

 private:
  struct State;
  static Task<void> tick(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// Pure: "pausing i… 3 s".
std::string waiting_text(const std::string& what, std::int64_t seconds);

template <class T>
Task<T> with_word(Task<T> task, std::string what) {
  const WaitingLine line(co_await boost::asio::this_coro::executor, std::move(what));
  co_return co_await std::move(task);
}

}  // namespace space::cli

// Watcher: a DirectoryWatch on the loop, read as it comes into a bounded queue. Belongs to the loop; reading
// and listing run beside it. Idle costs nothing.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>

#include "guest/directory_watch.h"
#include "net/task.h"

namespace space::guest {

class Watcher {
 public:
  struct Limits {
    std::size_t events = 65'536;
    std::size_t bytes = 16 * 1024 * 1024;
  };
  // When it returns nothing that happens from now on is missed. Errors as DirectoryWatch::open.
  static Task<Result<std::shared_ptr<Watcher>>> open(WatchOptions options, Limits limits);
  static Task<Result<std::shared_ptr<Watcher>>> open(WatchOptions options) {
    return open(std::move(options), Limits());
  }

  // Events (JSON) in order, at most about `limit_bytes`; empty: none yet.
  std::vector<std::string> take(std::size_t limit_bytes);
  // Why there will be no more; only once all that was queued has been taken.
  const connect::RpcError* end() const { return queue_.empty() && end_ ? &*end_ : nullptr; }
  Task<bool> wait(Deadline deadline);  // for something to take or the end; false: the deadline passed
  // Frees the kernel's watches soon. A watcher that is not closed goes on without its owner.
  void close();

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;

  Watcher(const Executor& executor, Limits limits)
      : limits_(limits), descriptor_(executor), wake_(executor) {}
  static Task<void> pump(std::shared_ptr<Watcher> self, std::unique_ptr<DirectoryWatch> watch);
  void push(DirectoryWatch::Batch batch);

  Limits limits_;
  Descriptor descriptor_;
  Event wake_;
  std::deque<std::string> queue_;
  std::size_t queued_bytes_ = 0;
  std::optional<connect::RpcError> end_;
  bool closed_ = false;
};

}  // namespace space::guest

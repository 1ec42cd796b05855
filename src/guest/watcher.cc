#include "guest/watcher.h"

#include <fcntl.h>

#include <boost/asio/redirect_error.hpp>

namespace space::guest {

Task<Result<std::shared_ptr<Watcher>>> Watcher::open(WatchOptions options, Limits limits) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  SPACE_CO_TRY(auto watch, co_await run_blocking([&] { return DirectoryWatch::open(std::move(options)); }));
  // The loop gets a descriptor of its own: the watch is let go beside the loop, where it may take its time.
  Fd readable(::fcntl(watch->fd(), F_DUPFD_CLOEXEC, 0));
  if (!readable) co_return fail_errno(errno, "watch the folder");
  std::shared_ptr<Watcher> watcher(new Watcher(executor, limits));
  watcher->descriptor_.assign(readable.release());
  spawn(executor, "watch", pump(watcher, std::move(watch)));
  co_return watcher;
}

Task<void> Watcher::pump(std::shared_ptr<Watcher> self, std::unique_ptr<DirectoryWatch> watch) {
  boost::system::error_code ignored;
  while (!self->closed_ && !self->end_) {
    co_await self->descriptor_.async_wait(Descriptor::wait_read,
                                          boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
    if (self->closed_) break;
    self->push(co_await run_blocking([&] { return watch->read(); }));
  }
  self->descriptor_.close(ignored);
  co_await run_blocking([&] { watch.reset(); });
}

void Watcher::push(DirectoryWatch::Batch batch) {
  end_ = std::move(batch.end);
  for (std::string& event : batch.events) {
    queued_bytes_ += event.size();
    queue_.push_back(std::move(event));
    if (queue_.size() <= limits_.events && queued_bytes_ <= limits_.bytes) continue;
    end_ = connect::RpcError{connect::RpcCode::data_loss,
                             "more happened than was taken; list the folder and watch it again"};
    break;
  }
  if (!queue_.empty() || end_) wake_.notify_all();
}

std::vector<std::string> Watcher::take(std::size_t limit_bytes) {
  std::vector<std::string> events;
  std::size_t bytes = 0;
  while (!queue_.empty() && bytes < limit_bytes) {
    bytes += queue_.front().size();
    events.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  queued_bytes_ -= bytes;
  return events;
}

Task<bool> Watcher::wait(Deadline deadline) {
  if (!queue_.empty() || end_) co_return true;
  co_return co_await wake_.wait(deadline);
}

void Watcher::close() {
  closed_ = true;
  boost::system::error_code ignored;
  descriptor_.cancel(ignored);
}

}  // namespace space::guest

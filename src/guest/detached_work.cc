#include "guest/detached_work.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace space::guest {
namespace {

class DetachedThreads {
 public:
  bool begin(std::function<void()> job) {
    {
      const std::lock_guard lock(mutex_);
      if (idle_ <= jobs_.size() && threads_ >= threads_max) return false;
      jobs_.push_back(std::move(job));
      if (idle_ >= jobs_.size()) {
        wake_.notify_one();
        return true;
      }
      ++threads_;
    }
    std::thread([this] { work(); }).detach();
    return true;
  }

 private:
  static constexpr std::size_t threads_max = 8;
  static constexpr std::size_t idle_max = 1;

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      if (jobs_.empty() && idle_ >= idle_max) break;
      ++idle_;
      while (jobs_.empty()) wake_.wait(lock);
      --idle_;
      std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      job = nullptr;
      lock.lock();
    }
    --threads_;
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_;  // not begun yet; each has a thread that will take it
  std::size_t threads_ = 0;
  std::size_t idle_ = 0;
};

}  // namespace

bool begin_detached(std::function<void()> job) {
  // Never destroyed: its threads outlive everything.
  static auto* const threads = new DetachedThreads;
  return threads->begin(std::move(job));
}

}  // namespace space::guest

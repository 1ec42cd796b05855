// SpawnThreads: starts programs on threads of their own, so that one whose file system does not answer keeps
// neither the loop nor other programs waiting.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "guest/spawner.h"

namespace space::guest {

class SpawnThreads {
 public:
  using Outcome = std::expected<pid_t, SpawnFailure>;
  // One start. Shared between the loop, which made it, and the thread that works on it.
  struct Job {
    explicit Job(SpawnPlan p) : plan(std::move(p)) {}
    const SpawnPlan plan;
    std::atomic<pid_t> pid = 0;           // 0: not cloned yet
    std::atomic<bool> cancelled = false;  // not cloned any more
    std::function<void(Outcome)> done;    // called on the loop, once
  };

  explicit SpawnThreads(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}
  // Kills what has not been exec'ed yet. `done` of unfinished jobs is not called unless the loop runs on.
  ~SpawnThreads();
  SpawnThreads(const SpawnThreads&) = delete;
  SpawnThreads& operator=(const SpawnThreads&) = delete;

  void start(std::shared_ptr<Job> job);

 private:
  static constexpr std::size_t threads_max = 64;

  void work();
  static Outcome run(Job& job);

  boost::asio::any_io_executor executor_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::set<std::shared_ptr<Job>> running_;
  std::size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace space::guest

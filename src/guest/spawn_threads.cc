#include "guest/spawn_threads.h"

#include <boost/asio/post.hpp>
#include <cerrno>
#include <csignal>

namespace space::guest {

SpawnThreads::~SpawnThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    queue_.clear();
    for (const auto& job : running_) {
      job->cancelled = true;
      if (const pid_t pid = job->pid; pid > 0) ::kill(pid, SIGKILL);
    }
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void SpawnThreads::start(std::shared_ptr<Job> job) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(job));
  if (queue_.size() > idle_ && threads_.size() < threads_max) threads_.emplace_back([this] { work(); });
  wake_.notify_one();
}

SpawnThreads::Outcome SpawnThreads::run(Job& job) {
  if (job.cancelled) return std::unexpected(SpawnFailure{SpawnStage::clone, ECANCELED});
  return spawn_program(job.plan, job.pid);
}

void SpawnThreads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (stopping_) return;
    auto job = std::move(queue_.front());
    queue_.pop_front();
    running_.insert(job);
    lock.unlock();
    const Outcome outcome = run(*job);
    boost::asio::post(executor_, [job, outcome] { job->done(outcome); });
    lock.lock();
    running_.erase(job);
  }
}

}  // namespace space::guest

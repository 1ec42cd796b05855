#include "guest/process_table.h"

#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace space::guest {

namespace {

constexpr Millis kept_after_end{30'000};
constexpr std::size_t kept_limit = 1024;

connect::RpcError not_found(const Selector& selector) {
  return {connect::RpcCode::not_found, selector.pid
                                           ? fmt::format("process with pid {} not found", *selector.pid)
                                           : fmt::format("process with tag {} not found", selector.tag)};
}

bool matches(const Selector& selector, const Process& process) {
  if (selector.pid) return static_cast<std::uint32_t>(process.pid()) == *selector.pid;
  return process.request().tag == selector.tag;
}

}  // namespace

ProcessTable::ProcessTable(const Executor& executor) : executor_(executor), child_signal_(executor) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  child_signal_.assign(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  spawn(executor, "watch children", watch_children());
}

RpcResult<std::shared_ptr<Process>> ProcessTable::start(StartRequest request, const User& user,
                                                        const LaunchContext& context,
                                                        std::optional<Millis> timeout) {
  auto launched = launch(request, user, context);
  if (!launched) return std::unexpected(std::move(launched).error());
  // The pid cannot have been reaped yet: that happens on this loop.
  auto process =
      std::make_shared<Process>(executor_, launched->pid, std::move(request), std::move(launched->pipes),
                                [this](const std::shared_ptr<Process>& ended) { retire(ended); });
  running_.insert_or_assign(launched->pid, process);
  process->run(timeout);
  return process;
}

RpcResult<std::shared_ptr<Process>> ProcessTable::find(const Selector& selector) const {
  if (selector.pid) {
    const auto found = running_.find(static_cast<pid_t>(*selector.pid));
    if (found != running_.end()) return found->second;
  } else {
    const auto found =
        std::ranges::find_if(running_, [&](const auto& entry) { return matches(selector, *entry.second); });
    if (found != running_.end()) return found->second;
  }
  return std::unexpected(not_found(selector));
}

RpcResult<std::shared_ptr<Process>> ProcessTable::find_or_recent(const Selector& selector) {
  auto running = find(selector);
  if (running) return running;
  forget_old();
  const auto found = std::find_if(ended_.rbegin(), ended_.rend(),
                                  [&](const Ended& e) { return matches(selector, *e.process); });
  if (found == ended_.rend()) return running;
  return found->process;
}

Task<void> ProcessTable::watch_children() {
  signalfd_siginfo info[8];
  for (;;) {
    boost::system::error_code error;
    // What it says is merged and incomplete; it only tells that there is something to reap.
    co_await child_signal_.async_read_some(boost::asio::buffer(info, sizeof info),
                                           boost::asio::redirect_error(boost::asio::use_awaitable, error));
    if (error) co_return;
    reap();
  }
}

void ProcessTable::reap() {
  int status = 0;
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG)) {
    const auto found = running_.find(pid);
    // Else an orphan that became ours, perhaps under the pid of a program whose output others still hold.
    if (found == running_.end() || found->second->exited()) continue;
    const auto process = found->second;
    process->on_exit(status);
  }
}

void ProcessTable::retire(const std::shared_ptr<Process>& process) {
  ended_.push_back({system_clock().monotonic() + kept_after_end, process});
  const auto found = running_.find(process->pid());
  if (found != running_.end() && found->second == process) running_.erase(found);
  forget_old();
}

void ProcessTable::forget_old() {
  const Monotonic now = system_clock().monotonic();
  while (!ended_.empty() && (ended_.front().until <= now || ended_.size() > kept_limit)) ended_.pop_front();
}

}  // namespace space::guest

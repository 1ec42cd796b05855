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
constexpr Millis start_patience{30'000};

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

ProcessTable::ProcessTable(const Executor& executor)
    : executor_(executor), child_signal_(executor), left_(executor), threads_(executor) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  child_signal_.assign(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  spawn(executor, "watch children", watch_children());
}

Task<RpcResult<std::shared_ptr<Process>>> ProcessTable::start(StartRequest request, User user,
                                                              LaunchContext context,
                                                              std::optional<Millis> timeout) {
  auto launch = prepare_launch(request, user, context);
  if (!launch) co_return std::unexpected(std::move(launch).error());
  const auto starting = std::make_shared<Starting>(executor_, *std::move(launch));
  const auto pid = co_await await_start(
      starting, Deadline::after(start_patience).at_most(timeout.value_or(start_patience)));
  if (!starting->given_up)
    std::erase(starting_, starting);  // in one step with what follows: it may be reaped
  if (!pid) co_return std::unexpected(pid.error());

  auto process =
      std::make_shared<Process>(executor_, *pid, std::move(request), std::move(starting->ours), left_,
                                [this](const std::shared_ptr<Process>& ended) { retire(ended); });
  home_of(process->request()).insert_or_assign(*pid, process);
  process->run(timeout ? std::optional(Deadline::after(*timeout)) : std::nullopt);
  if (starting->wait_status) process->on_exit(*starting->wait_status);
  co_return process;
}

Task<RpcResult<pid_t>> ProcessTable::await_start(std::shared_ptr<Starting> starting, Deadline deadline) {
  SpawnThreads::Job& job = starting->job;
  // The job is a part of `starting` and must not keep itself alive.
  job.done = [this, starting = std::weak_ptr(starting)](SpawnThreads::Outcome outcome) {
    on_start(starting.lock(), outcome);
  };
  starting_.push_back(starting);
  threads_.start(std::shared_ptr<SpawnThreads::Job>(starting, &job));
  while (!starting->outcome) {
    if (co_await starting->heard.wait(deadline)) continue;
    starting->given_up = true;
    job.cancelled = true;
    if (const pid_t pid = job.pid; pid > 0 && !starting->wait_status) ::kill(pid, SIGKILL);
    co_return std::unexpected(connect::RpcError{
        connect::RpcCode::deadline_exceeded,
        fmt::format("'{}' does not start: its file system does not answer", job.plan.arguments.front())});
  }
  if (!*starting->outcome) co_return std::unexpected(describe(starting->outcome->error(), job.plan));
  co_return **starting->outcome;
}

void ProcessTable::on_start(const std::shared_ptr<Starting>& starting, SpawnThreads::Outcome outcome) {
  starting->theirs = {};
  starting->outcome = outcome;
  starting->heard.notify_all();
  if (!starting->given_up) return;
  if (outcome && !starting->wait_status) ::kill(*outcome, SIGKILL);
  std::erase(starting_, starting);
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
  for (pid_t pid = ::waitpid(-1, &status, WNOHANG); pid > 0; pid = ::waitpid(-1, &status, WNOHANG))
    on_exit(pid, status);
}

void ProcessTable::on_exit(pid_t pid, int wait_status) {
  const auto starting = std::ranges::find_if(starting_, [&](const auto& s) { return s->job.pid == pid; });
  if (starting != starting_.end()) {
    (*starting)->wait_status = wait_status;
    return;
  }
  for (const Running* home : {&running_, &hidden_}) {
    const auto found = home->find(pid);
    // Else an orphan that became ours, perhaps under the pid of a program whose output others still hold.
    if (found == home->end() || found->second->exited()) continue;
    const auto process = found->second;
    return process->on_exit(wait_status);
  }
}

void ProcessTable::retire(const std::shared_ptr<Process>& process) {
  if (!process->request().hidden) ended_.push_back({system_clock().monotonic() + kept_after_end, process});
  Running& home = home_of(process->request());
  const auto found = home.find(process->pid());
  if (found != home.end() && found->second == process) home.erase(found);
  forget_old();
}

void ProcessTable::hand_over(Handover& handover) {
  forget_old();
  for (const auto& [pid, process] : running_) handover.running.push_back(process->record());
  for (const Ended& ended : ended_)
    handover.ended.push_back({.pid = ended.process->pid(),
                              .request = ended.process->request(),
                              .exit = ended.process->exit_status(),
                              .timed_out = ended.process->timed_out(),
                              .until_ms = std::chrono::ceil<Millis>(ended.until.time_since_epoch()).count()});
  handover.left_outputs = left_.descriptors();
}

void ProcessTable::take_over(const Handover& handover) {
  for (const EndedRecord& record : handover.ended)
    ended_.push_back(
        {Monotonic(Millis(record.until_ms)), std::make_shared<Process>(executor_, record, left_)});
  for (const ProcessRecord& record : handover.running) {
    const auto process = std::make_shared<Process>(
        executor_, record, left_, [this](const std::shared_ptr<Process>& ended) { retire(ended); });
    running_.insert_or_assign(process->pid(), process);
    process->run(record.kill_at_ms ? std::optional(Deadline::at(Monotonic(Millis(*record.kill_at_ms))))
                                   : std::nullopt);
  }
  for (const int fd : handover.left_outputs) left_.take(Fd(fd));
  reap();
}

void ProcessTable::take_outputs(std::vector<Fd> outputs) {
  for (Fd& output : outputs) left_.take(std::move(output));
}

void ProcessTable::forget_old() {
  const Monotonic now = system_clock().monotonic();
  while (!ended_.empty() && (ended_.front().until <= now || ended_.size() > kept_limit)) ended_.pop_front();
}

}  // namespace space::guest

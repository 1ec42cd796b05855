// Process, from one daemon to the one that takes its place.
#include "guest/process.h"

namespace space::guest {

namespace {

std::int64_t to_ms(Monotonic time) {
  return std::chrono::ceil<Millis>(time.time_since_epoch()).count();
}

ProcessPipes pipes_of(const ProcessRecord& record) {
  return {.stdin_writer = Fd(record.stdin_fd),
          .stdout_reader = Fd(record.stdout_fd),
          .stderr_reader = Fd(record.stderr_fd),
          .terminal = Fd(record.terminal_fd)};
}

}  // namespace

Process::Process(const Executor& executor, const ProcessRecord& record, LeftOutputs& left,
                 std::function<void(const std::shared_ptr<Process>&)> on_end)
    : Process(executor, record.pid, record.request, pipes_of(record), left, std::move(on_end)) {
  for (std::size_t i = 0; i < tails_.size(); ++i) tails_[i].hold(record.tails[i]);
  for (const Bytes& event : record.kept) keep(std::make_shared<const Bytes>(event));
  exit_ = record.exit;
  timed_out_ = record.timed_out;
  abandon_on_exit_ = record.signalled;
  abandoned_ = record.signalled && record.exit.has_value();
}

Process::Process(const Executor& executor, const EndedRecord& record, LeftOutputs& left)
    : Process(executor, record.pid, record.request, ProcessPipes{}, left, nullptr) {
  exit_ = record.exit;
  timed_out_ = record.timed_out;
  ended_ = true;
}

ProcessRecord Process::record() {
  const auto number = [](Descriptor& descriptor) {
    return descriptor.is_open() ? descriptor.native_handle() : -1;
  };
  ProcessRecord result{.pid = pid_,
                       .request = request_,
                       .stdin_fd = number(stdin_),
                       .stdout_fd = number(stdout_),
                       .stderr_fd = number(stderr_),
                       .terminal_fd = number(terminal_),
                       .exit = exit_,
                       .timed_out = timed_out_,
                       .signalled = abandon_on_exit_};
  if (kill_at_) result.kill_at_ms = to_ms(*kill_at_);
  // What a stream of the terminal has not been sent goes to whoever comes back to it.
  if (request_.terminal)
    for (const auto& event : attachments_.empty() ? kept_ : attachments_.front()->queue_)
      result.kept.push_back(*event);
  for (std::size_t i = 0; i < tails_.size(); ++i)
    result.tails[i].assign(tails_[i].held().begin(), tails_[i].held().end());
  return result;
}

}  // namespace space::guest

#include "guest/process.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <csignal>

#include "net/connect.h"

namespace space::guest {

namespace {

constexpr std::size_t chunk_bytes = 32 * 1024;
constexpr std::size_t terminal_chunk_bytes = 16 * 1024;
// How long the rest of a character is waited for; a program writes it at once, or never.
constexpr Millis character_patience{100};
// After the exit, for output of what the program left behind: without any, and in all.
constexpr Millis orphan_patience{200};
constexpr Millis orphan_limit{2'000};
constexpr Millis kill_patience{2'000};
// After so much the loop's other work has its turn; programs may write faster than we read.
constexpr std::size_t burst_limit_bytes = 256 * 1024;
constexpr std::size_t pipe_bytes_max = 1024 * 1024;  // what a pipe can be made to hold
// Of a terminal nobody is attached to; as events.
constexpr std::size_t kept_limit_bytes = 64 * 1024;

using Descriptor = boost::asio::posix::stream_descriptor;

// Non-blocking is set through asio, which then does not set it again.
void adopt(Descriptor& descriptor, Fd fd) {
  if (!fd) return;
  descriptor.assign(fd.release());
  boost::system::error_code ignored;
  descriptor.native_non_blocking(true, ignored);
}

// Cancels what waits on it first; asio's own close reports errors by exception.
void close_quietly(Descriptor& descriptor) {
  boost::system::error_code ignored;
  descriptor.close(ignored);
}

std::size_t index_of(Output output) {
  return static_cast<std::size_t>(output);
}

}  // namespace

Process::Attachment::Attachment(std::shared_ptr<Process> process)
    : process_(std::move(process)), wake_(process_->executor_) {
  process_->attachments_.push_back(this);
  queue_ = std::exchange(process_->kept_, {});
  queued_bytes_ = std::exchange(process_->kept_bytes_, 0);
}

Process::Attachment::~Attachment() {
  std::erase(process_->attachments_, this);
  process_->room_.notify_all();
}

void Process::Attachment::push(const std::shared_ptr<const Bytes>& event) {
  queue_.push_back(event);
  queued_bytes_ += event->size();
  wake_.notify_all();
}

Bytes Process::Attachment::take() {
  Bytes result;
  result.reserve(queued_bytes_);
  for (const auto& event : queue_) result.insert(result.end(), event->begin(), event->end());
  const bool was_full = full();
  queue_.clear();
  queued_bytes_ = 0;
  if (was_full) process_->room_.notify_all();
  return result;
}

Task<bool> Process::Attachment::wait(Deadline deadline) {
  if (!queue_.empty() || process_->ended_) co_return true;
  co_return co_await wake_.wait(deadline);
}

Process::Process(const Executor& executor, pid_t pid, StartRequest request, ProcessPipes pipes,
                 LeftOutputs& left, std::function<void(const std::shared_ptr<Process>&)> on_end)
    : executor_(executor),
      pid_(pid),
      request_(std::move(request)),
      on_end_(std::move(on_end)),
      stdin_(executor),
      stdout_(executor),
      stderr_(executor),
      terminal_(executor),
      left_(left),
      timeout_(executor),
      room_(executor),
      input_free_(executor) {
  adopt(stdin_, std::move(pipes.stdin_writer));
  adopt(stdout_, std::move(pipes.stdout_reader));
  adopt(stderr_, std::move(pipes.stderr_reader));
  adopt(terminal_, std::move(pipes.terminal));
}

void Process::run(std::optional<Deadline> kill_at) {
  const auto start = [this](Descriptor& source, Output output) {
    if (!source.is_open()) return;
    ++open_outputs_;
    spawn(executor_, "process output", pump(shared_from_this(), &source, output));
  };
  start(stdout_, Output::standard);
  start(stderr_, Output::error);
  start(terminal_, Output::terminal);
  finish_if_done();
  if (!kill_at || ended_) return;
  kill_at_ = kill_at->when();
  timeout_.expires_at(kill_at->when());
  timeout_.async_wait([self = weak_from_this()](const boost::system::error_code& error) {
    if (const auto process = self.lock(); process && !error) process->on_timeout();
  });
}

void Process::on_timeout() {
  if (ended_) return;
  timed_out_ = true;
  (void)signal(SIGKILL);
  timeout_.expires_after(kill_patience);
  timeout_.async_wait([self = weak_from_this()](const boost::system::error_code& error) {
    const auto process = self.lock();
    if (error || !process || process->ended_) return;
    process->unkillable_ = true;
    for (Attachment* attachment : process->attachments_) attachment->wake_.notify_all();
  });
}

// False: nothing came within `limit`. Cancelled by wake_readers: true.
Task<bool> Process::await_output(Descriptor* source, std::optional<Millis> limit) {
  using boost::asio::experimental::awaitable_operators::operator||;
  boost::system::error_code ignored;
  auto readable = source->async_wait(Descriptor::wait_read,
                                     boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
  if (limit) co_return (co_await (std::move(readable) || sleep_for(*limit))).index() == 0;
  co_await std::move(readable);
  co_return true;
}

// The coroutine's parameter keeps the process alive until its output has ended.
Task<void> Process::pump(std::shared_ptr<Process> self, Descriptor* source, Output output) {
  co_await read_output(source, output);
  if (source != &terminal_) close_quietly(*source);  // the terminal may still take input
  --open_outputs_;
  finish_if_done();
}

Task<void> Process::read_output(Descriptor* source, Output output) {
  // Room for what is held back, then for what is read. Used between two waits only, so one serves all.
  static std::array<std::byte, Utf8Tail::size_max + chunk_bytes> buffer;
  const std::size_t chunk = output == Output::terminal ? terminal_chunk_bytes : chunk_bytes;
  Utf8Tail& tail = tails_[index_of(output)];
  std::size_t burst_bytes = 0;
  std::size_t bytes_after_exit = 0;
  std::optional<Deadline>
      orphans;            // all that was written before the exit has been read: only they still write
  bool readable = false;  // a program that has just started has written nothing: wait before the first read
  for (;;) {
    if (!readable && !abandoned_) {
      const bool came = co_await await_output(source, read_limit(tail.empty()));
      if (!came) publish(output, tail.take());
      if (!came && exit_) orphans = Deadline::at(Monotonic::min());
    }
    if (orphans && orphans->passed() && !abandoned_) {
      publish(output, tail.take());
      if (source != &terminal_) left_.take(std::move(*source));
      co_return;
    }
    while (!has_room()) co_await room_.wait();
    if (burst_bytes >= burst_limit_bytes) {
      burst_bytes = 0;
      co_await boost::asio::post(executor_, boost::asio::use_awaitable);
    }
    const ssize_t count = ::read(source->native_handle(), buffer.data() + Utf8Tail::size_max, chunk);
    if (count < 0 && errno == EINTR) continue;
    const bool empty = count < 0 && errno == EAGAIN;
    if (exit_ && !orphans && empty) orphans = Deadline::after(orphan_limit);
    if (exit_ && bytes_after_exit > pipe_bytes_max) orphans = Deadline::at(Monotonic::min());
    if (empty && !abandoned_) {
      readable = false;
      continue;
    }
    if (count <= 0) break;  // the end; EIO of a terminal whose other side is closed; abandoned and empty
    const auto size = static_cast<std::size_t>(count);
    publish(output, tail.join(std::span(buffer).first(Utf8Tail::size_max + size)));
    readable = size == chunk;
    burst_bytes += size;
    if (exit_) bytes_after_exit += size;
    if (abandoned_ && (abandon_budget_bytes_ -= std::min(abandon_budget_bytes_, size)) == 0) break;
  }
  publish(output, tail.take());
}

std::optional<Millis> Process::read_limit(bool whole_characters) const {
  if (exit_) return orphan_patience;
  if (!whole_characters) return character_patience;
  return std::nullopt;
}

bool Process::has_room() const {
  return abandoned_ || std::ranges::none_of(attachments_, &Attachment::full);
}

void Process::publish(Output output, std::span<const std::byte> bytes) {
  if (bytes.empty() || (attachments_.empty() && output != Output::terminal)) return;
  const auto event = std::make_shared<const Bytes>(connect::envelope(0, data_event(output, bytes)));
  if (attachments_.empty()) keep(event);
  for (Attachment* attachment : attachments_) attachment->push(event);
}

// Whoever comes back to a terminal sees what happened meanwhile.
void Process::keep(const std::shared_ptr<const Bytes>& event) {
  kept_.push_back(event);
  kept_bytes_ += event->size();
  while (kept_bytes_ > kept_limit_bytes) {
    kept_bytes_ -= kept_.front()->size();
    kept_.pop_front();
  }
}

void Process::on_exit(int wait_status) {
  exit_ = describe_wait_status(wait_status);
  wake_readers();  // they waited without a limit
  if (abandon_on_exit_) abandon_output();
  finish_if_done();
}

void Process::abandon_output() {
  abandoned_ = true;
  wake_readers();
}

void Process::wake_readers() {
  boost::system::error_code ignored;
  for (Descriptor* source : {&stdout_, &stderr_, &terminal_})
    if (source->is_open()) source->cancel(ignored);
  room_.notify_all();
}

void Process::finish_if_done() {
  if (!exit_ || open_outputs_ > 0 || ended_) return;
  ended_ = true;
  timeout_.cancel();
  close_quietly(stdin_);
  close_quietly(terminal_);
  for (Attachment* attachment : attachments_) attachment->wake_.notify_all();
  on_end_(shared_from_this());
}

Result<void> Process::signal(int number) {
  abandon_on_exit_ = true;
  if (exit_) {  // reaped: the pid may be another's by now; what is left are orphans that hold the pipes
    abandon_output();
    return {};
  }
  if (::kill(pid_, number) != 0) return fail_errno(errno, "signal the process");
  return {};
}

Task<Result<void>> Process::write_input(Input input) {
  Descriptor& target = input.terminal ? terminal_ : stdin_;
  if (input.terminal && !request_.terminal) co_return fail(Code::internal, "the process has no terminal");
  if (!input.terminal && request_.terminal)
    co_return fail(Code::internal, "the process has a terminal, no stdin");
  const auto self = shared_from_this();
  while (input_busy_) co_await input_free_.wait();
  if (!target.is_open()) co_return fail(Code::internal, "stdin of the process is not open");

  input_busy_ = true;
  struct Release {
    Process* process;
    ~Release() {
      process->input_busy_ = false;
      process->input_free_.notify_all();
    }
  } release{this};
  std::span<const std::byte> left = input.bytes;
  while (!left.empty()) {
    const ssize_t count = ::write(target.native_handle(), left.data(), left.size());
    if (count >= 0) {
      left = left.subspan(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      boost::system::error_code error;
      co_await target.async_wait(Descriptor::wait_write,
                                 boost::asio::redirect_error(boost::asio::use_awaitable, error));
      if (error || !target.is_open()) co_return fail(Code::internal, "stdin of the process was closed");
    } else if (errno != EINTR) {
      co_return std::unexpected(Error{Code::internal, fail_errno(errno, "write to stdin").error().message});
    }
  }
  co_return Result<void>();
}

Result<void> Process::close_stdin() {
  if (request_.terminal)
    return fail(Code::internal, "cannot close the input of a terminal; send it Ctrl+D instead");
  close_quietly(stdin_);
  return {};
}

Result<void> Process::resize(TerminalSize size) {
  if (!request_.terminal) return fail(Code::invalid_argument, "the process has no terminal");
  const winsize window{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (::ioctl(terminal_.native_handle(), TIOCSWINSZ, &window) != 0)
    return fail_errno(errno, "resize the terminal");
  return {};
}

}  // namespace space::guest

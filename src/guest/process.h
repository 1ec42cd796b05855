// Process: one program a client started, its pipes or terminal, and the streams attached to it.
//
// Life: spawned -> exited (reaped by the table) -> ended. It ends once its output has reached the end of
// file. What it left behind in the background may hold the output open: then it ends once everything written
// before its exit has been read and nothing more has come for a moment, and what comes later is read and
// dropped. When it was signalled or timed out it ends at once and its output is closed. Belongs to the loop.
// Streams come and go without touching the program.
#pragma once

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "guest/handover.h"
#include "guest/left_outputs.h"
#include "guest/process_messages.h"
#include "guest/utf8_tail.h"
#include "net/task.h"

namespace space::guest {

// Open ends the daemon keeps of a program. Either the pipes (stdin may be absent) or the terminal.
struct ProcessPipes {
  Fd stdin_writer;
  Fd stdout_reader;
  Fd stderr_reader;
  Fd terminal;
};

class Process : public std::enable_shared_from_this<Process> {
 public:
  // What one attached stream has yet to be sent. Bounded: while it is full the program's output is not read.
  class Attachment {
   public:
    explicit Attachment(std::shared_ptr<Process> process);
    ~Attachment();
    Attachment(const Attachment&) = delete;
    Attachment& operator=(const Attachment&) = delete;

    Bytes take();  // enveloped events in order; empty: nothing yet
    bool drained() const { return queue_.empty(); }
    Task<bool> wait(Deadline deadline);  // for something to take or for the end; false: deadline passed

   private:
    friend class Process;
    bool full() const { return queued_bytes_ >= queue_limit_bytes; }
    void push(const std::shared_ptr<const Bytes>& event);

    static constexpr std::size_t queue_limit_bytes = 256 * 1024;
    std::shared_ptr<Process> process_;
    std::deque<std::shared_ptr<const Bytes>> queue_;
    std::size_t queued_bytes_ = 0;
    Event wake_;
  };

  // `left` outlives it.
  Process(const Executor& executor, pid_t pid, StartRequest request, ProcessPipes pipes, LeftOutputs& left,
          std::function<void(const std::shared_ptr<Process>&)> on_end);
  // One that another daemon in this process started. It owns the record's descriptors from then on.
  Process(const Executor& executor, const ProcessRecord& record, LeftOutputs& left,
          std::function<void(const std::shared_ptr<Process>&)> on_end);
  // One that had ended there.
  Process(const Executor& executor, const EndedRecord& record, LeftOutputs& left);

  // Starts reading output and, if given, the timer that kills. Once, right after construction.
  void run(std::optional<Deadline> kill_at);
  // What a daemon that takes this one's place needs. The descriptors stay ours.
  ProcessRecord record();
  // The program was reaped.
  void on_exit(int wait_status);

  pid_t pid() const { return pid_; }
  const StartRequest& request() const { return request_; }
  bool exited() const { return exit_.has_value(); }
  bool ended() const { return ended_; }
  bool timed_out() const { return timed_out_; }
  // Timed out, but the kernel cannot end it (a file system that does not answer): nobody should wait for it.
  bool unkillable() const { return unkillable_; }
  const ExitStatus& exit_status() const { return *exit_; }  // once it has exited

  Result<void> signal(int number);  // to the program itself, not to its group
  // Waits while the program does not read. One writer at a time; others queue behind it.
  Task<Result<void>> write_input(Input input);
  Result<void> close_stdin();  // idempotent
  Result<void> resize(TerminalSize size);

 private:
  using Descriptor = boost::asio::posix::stream_descriptor;

  Task<void> pump(std::shared_ptr<Process> self, Descriptor* source, Output output);
  Task<void> read_output(Descriptor* source, Output output);
  static Task<bool> await_output(Descriptor* source, std::optional<Millis> limit);
  std::optional<Millis> read_limit(bool whole_characters) const;
  bool has_room() const;
  void publish(Output output, std::span<const std::byte> bytes);
  void keep(const std::shared_ptr<const Bytes>& event);
  void on_timeout();
  void wake_readers();
  void abandon_output();
  void finish_if_done();

  Executor executor_;
  pid_t pid_;
  StartRequest request_;
  std::function<void(const std::shared_ptr<Process>&)> on_end_;
  Descriptor stdin_;
  Descriptor stdout_;
  Descriptor stderr_;
  Descriptor terminal_;
  LeftOutputs& left_;
  std::array<Utf8Tail, 3> tails_;  // of Output's kinds
  std::optional<Monotonic> kill_at_;
  boost::asio::steady_timer timeout_;
  std::vector<Attachment*> attachments_;
  std::deque<std::shared_ptr<const Bytes>> kept_;  // of a terminal nobody is attached to
  std::size_t kept_bytes_ = 0;
  Event room_;        // an attachment has been emptied or has gone
  Event input_free_;  // the writer of input has finished
  bool input_busy_ = false;
  int open_outputs_ = 0;
  std::size_t abandon_budget_bytes_ = 1024 * 1024;  // read after abandoning; an orphan may write forever
  bool abandoned_ = false;
  bool abandon_on_exit_ = false;
  bool timed_out_ = false;
  bool unkillable_ = false;
  bool ended_ = false;
  std::optional<ExitStatus> exit_;
};

}  // namespace space::guest

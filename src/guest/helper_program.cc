#include "guest/helper_program.h"

#include <csignal>

namespace space::guest {

namespace {

constexpr Millis kill_patience{500};

// False: it runs on. What it says is dropped, so that it never waits for us.
Task<bool> await_end(Process& process, Process::Attachment& output, Deadline deadline) {
  while (!process.ended()) {
    output.take();
    if (!co_await output.wait(deadline)) co_return process.ended();
  }
  co_return true;
}

}  // namespace

Task<HelperEnd> run_helper(ProcessTable& table, HelperProgram program) {
  const Deadline deadline = Deadline::after(program.time_max);
  StartRequest request{.process = {.command = program.command,
                                   .arguments = std::move(program.arguments),
                                   .environment = std::move(program.environment),
                                   .working_folder = "/"},
                       .stdin_open = false,
                       .hidden = true};
  const auto started = co_await table.start(std::move(request), std::move(program.user),
                                            std::move(program.context), program.time_max);
  if (!started) co_return HelperEnd{.timed_out = deadline.passed(), .status = started.error().message};
  const auto process = *started;
  Process::Attachment output(process);
  if (!co_await await_end(*process, output, deadline) && !process->exited()) {
    ::kill(-process->pid(), SIGKILL);  // it leads a session of its own
    (void)process->signal(SIGKILL);
    (void)co_await await_end(*process, output, Deadline::after(kill_patience));
    co_return HelperEnd{.timed_out = true, .status = "timed out"};
  }
  if (process->timed_out()) co_return HelperEnd{.timed_out = true, .status = "timed out"};
  const ExitStatus& end = process->exit_status();  // what it left may hold its output
  co_return HelperEnd{.succeeded = end.exited && end.code == 0, .status = end.status};
}

User superuser() {
  return {.name = "root", .uid = 0, .gid = 0, .home = "/root", .groups = {0}};
}

}  // namespace space::guest

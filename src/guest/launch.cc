#include "guest/launch.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace space::guest {

namespace {

using connect::RpcCode;
using connect::RpcError;

Result<void> make_pipe(Fd& reader, Fd& writer) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  reader.reset(ends[0]);
  writer.reset(ends[1]);
  return {};
}

// Else its user could not open /dev/stdout.
Result<void> give_to(const User& user, const Fd& end, const char* what) {
  if (user.uid != ::geteuid() && ::fchown(end.get(), user.uid, static_cast<gid_t>(-1)) != 0)
    return fail_errno(errno, fmt::format("give the {} to the user", what));
  return {};
}

Result<void> open_pipes(bool stdin_open, const User& user, ProcessPipes& ours, ProgramEnds& theirs) {
  if (stdin_open) {
    SPACE_CHECK(make_pipe(theirs.stdin_reader, ours.stdin_writer));
    SPACE_CHECK(give_to(user, theirs.stdin_reader, "pipe"));
  } else {
    theirs.stdin_reader.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!theirs.stdin_reader) return fail_errno(errno, "open /dev/null");
  }
  SPACE_CHECK(make_pipe(ours.stdout_reader, theirs.stdout_writer));
  SPACE_CHECK(make_pipe(ours.stderr_reader, theirs.stderr_writer));
  SPACE_CHECK(give_to(user, theirs.stdout_writer, "pipe"));
  return give_to(user, theirs.stderr_writer, "pipe");
}

Result<void> open_terminal(TerminalSize size, const User& user, ProcessPipes& ours, ProgramEnds& theirs) {
  ours.terminal.reset(::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!ours.terminal) return fail_errno(errno, "open a terminal");
  const int unlocked = 0;
  const winsize window{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (::ioctl(ours.terminal.get(), TIOCSPTLCK, &unlocked) != 0 ||
      ::ioctl(ours.terminal.get(), TIOCSWINSZ, &window) != 0)
    return fail_errno(errno, "set up a terminal");
  theirs.stdin_reader.reset(::ioctl(ours.terminal.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!theirs.stdin_reader) return fail_errno(errno, "open the terminal's other side");
  return give_to(user, theirs.stdin_reader, "terminal");
}

// "a/b" as argv[0] stays "a/b", as a shell would do it.
std::vector<std::string> argument_vector(const ProcessConfig& config) {
  std::vector<std::string> result;
  result.reserve(config.arguments.size() + 1);
  result.push_back(config.command);
  result.insert(result.end(), config.arguments.begin(), config.arguments.end());
  return result;
}

RpcError to_rpc(const Error& error) {
  return {connect::rpc_code(error.code), error.message};
}

}  // namespace

RpcResult<Launch> prepare_launch(const StartRequest& request, const User& user,
                                 const LaunchContext& context) {
  const auto folder =
      resolve_path(request.process.working_folder.value_or(""), user, context.default_workdir);
  if (!folder) return std::unexpected(to_rpc(folder.error()));
  const Environment environment =
      build_environment(context.path, user, context.environment, request.process.environment);

  Launch launch;
  const auto opened = request.terminal ? open_terminal(*request.terminal, user, launch.ours, launch.theirs)
                                       : open_pipes(request.stdin_open, user, launch.ours, launch.theirs);
  if (!opened) return std::unexpected(to_rpc(opened.error()));

  const int terminal = launch.theirs.stdin_reader.get();
  const bool as_we_are = user.uid == ::geteuid() && user.uid != 0;
  launch.plan = {
      .candidates = executable_candidates(request.process.command, environment.find("PATH")->second),
      .arguments = argument_vector(request.process),
      .environment = to_assignments(environment),
      .working_folder = *folder,
      .user = as_we_are ? std::nullopt : std::optional(user),
      .stdin_fd = terminal,
      .stdout_fd = request.terminal ? terminal : launch.theirs.stdout_writer.get(),
      .stderr_fd = request.terminal ? terminal : launch.theirs.stderr_writer.get(),
      .controlling_terminal = request.terminal.has_value(),
      .cgroup_fd = context.cgroup_fd,
      .reset_oom_score = context.reset_oom_score};
  return launch;
}

connect::RpcError describe(const SpawnFailure& failure, const SpawnPlan& plan) {
  const std::string reason = std::strerror(failure.error_number);
  switch (failure.stage) {
    case SpawnStage::working_folder:
      if (failure.error_number == ENOENT)
        return {RpcCode::invalid_argument, fmt::format("cwd '{}' does not exist", plan.working_folder)};
      return {RpcCode::invalid_argument,
              fmt::format("cwd '{}' cannot be entered: {}", plan.working_folder, reason)};
    case SpawnStage::exec:
      return {RpcCode::invalid_argument,
              fmt::format("cannot start '{}': {}", plan.arguments.front(), reason)};
    case SpawnStage::identity:
      return {RpcCode::permission_denied, fmt::format("cannot become the user: {}", reason)};
    case SpawnStage::clone:
      return {failure.error_number == EAGAIN || failure.error_number == ENOMEM ? RpcCode::resource_exhausted
                                                                               : RpcCode::internal,
              fmt::format("cannot start another process: {}", reason)};
    case SpawnStage::prepare:
      break;
  }
  return {RpcCode::internal, fmt::format("cannot prepare the process: {}", reason)};
}

}  // namespace space::guest

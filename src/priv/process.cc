#include "priv/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

namespace space::priv {
namespace {

Result<ProcessStat> read_process_stat(pid_t pid) {
  SPACE_TRY(const std::string text, read_file(fmt::format("/proc/{}/stat", pid), 4096));
  return parse_process_stat(text);
}

}  // namespace

Result<ProcessStat> parse_process_stat(std::string_view text) {
  // pid (name) state ppid … : the name may hold spaces and brackets, so the last bracket ends it.
  const auto bracket = text.rfind(')');
  if (bracket == std::string_view::npos || bracket + 3 > text.size())
    return fail(Code::internal, "malformed process stat");
  text.remove_prefix(bracket + 2);
  const char state = text.front();
  for (int field = 3; field < 22; ++field) {
    const auto space = text.find(' ');
    if (space == std::string_view::npos) return fail(Code::internal, "malformed process stat");
    text.remove_prefix(space + 1);
  }
  std::uint64_t start = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), start);
  if (error != std::errc()) return fail(Code::internal, "malformed process stat");
  return ProcessStat{state, start};
}

Result<ProcessId> process_id(pid_t pid) {
  SPACE_TRY(const ProcessStat stat, read_process_stat(pid));
  return ProcessId{pid, stat.start_ticks};
}

bool is_alive(const ProcessId& process) {
  const auto stat = read_process_stat(process.pid);
  return stat && stat->start_ticks == process.start_ticks && stat->state != 'Z' && stat->state != 'X';
}

Result<Fd> open_pidfd(const ProcessId& process) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!fd) return fail_errno(errno, "pidfd_open");
  // Only now is the number pinned; it may have been given to another before.
  if (!is_alive(process)) return fail(Code::not_found, "the process has ended");
  return fd;
}

bool uid_has_process(uid_t uid) {
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return true;
  bool found = false;
  while (const dirent* entry = ::readdir(proc)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    struct stat status{};
    if (::fstatat(::dirfd(proc), entry->d_name, &status, 0) == 0 && status.st_uid == uid) {
      found = true;
      break;
    }
  }
  ::closedir(proc);
  return found;
}

namespace {

// Standard output becomes what `output` is; errors still reach our log.
Result<pid_t> spawn_program(const std::vector<std::string>& argv, const Fd& output) {
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  char* environment[] = {nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, output.get(), 1);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, arguments[0], &actions, nullptr, arguments.data(), environment);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail_errno(error, "start " + argv.front());
  return pid;
}

Result<void> await_program(pid_t pid, const std::string& name) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return fail_errno(errno, "wait for " + name);
  if (status != 0) return fail(Code::internal, "{} failed with status {}", name, status);
  return {};
}

}  // namespace

Result<void> run_program(const std::vector<std::string>& argv) {
  SPACE_TRY(const Fd null, open_fd("/dev/null", O_WRONLY));
  SPACE_TRY(const pid_t pid, spawn_program(argv, null));
  return await_program(pid, argv.front());
}

Result<std::string> program_output(const std::vector<std::string>& argv) {
  constexpr std::size_t bytes_max = 64 << 10;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno(errno, "make a pipe");
  Fd read(ends[0]), write(ends[1]);
  SPACE_TRY(const pid_t pid, spawn_program(argv, write));
  write.reset();
  std::string text(bytes_max, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t got = ::read(read.get(), text.data() + filled, text.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    filled += static_cast<std::size_t>(got);
  }
  read.reset();  // one that writes more ends by SIGPIPE
  SPACE_CHECK(await_program(pid, argv.front()));
  text.resize(filled);
  return text;
}

void close_all_except(std::vector<int> kept) {
  std::ranges::sort(kept);
  unsigned first = 3;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (fd < 3) continue;
    if (number > first) ::close_range(first, number - 1, 0);
    first = number + 1;
  }
  ::close_range(first, ~0U, 0);
}

Result<void> detach_standard_streams() {
  SPACE_TRY(const Fd null, open_fd("/dev/null", O_RDWR));
  for (const int stream : {0, 1, 2})
    if (::dup2(null.get(), stream) < 0) return fail_errno(errno, "detach standard streams");
  return {};
}

}  // namespace space::priv

#include "guest/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>

#include "base/bytes.h"
#include "base/log.h"

namespace space::guest {

namespace {

Result<void> make_cgroup(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    return fail_errno(errno, fmt::format("make {}", path));
  return {};
}

Result<void> write_control(int folder, const char* name, std::string_view value) {
  const Fd fd(::openat(folder, name, O_WRONLY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, fmt::format("open {}", name));
  return write_all(fd.get(), as_bytes(value));
}

Result<std::string> read_control(int folder, const char* name) {
  const Fd fd(::openat(folder, name, O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno(errno, fmt::format("open {}", name));
  std::array<char, 4096> text;
  const ssize_t count = ::read(fd.get(), text.data(), text.size());
  if (count < 0) return fail_errno(errno, fmt::format("read {}", name));
  return std::string(text.data(), static_cast<std::size_t>(count));
}

Result<std::uint64_t> read_number(int folder, const char* name, std::string_view key) {
  SPACE_TRY(const std::string text, read_control(folder, name));
  const auto value = keyed_number(text, key);
  if (!value) return fail(Code::internal, "{} has no {}", name, key);
  return *value;
}

// The kernel's own limit of threads follows the memory. A user's processes get a quarter: beyond that a fork
// bomb takes the memory that root needs to end it.
Result<void> limit_processes(const std::string& root, int user_folder) {
  SPACE_TRY(const std::string threads_max, read_file("/proc/sys/kernel/threads-max", 32));
  std::uint64_t count = 0;
  if (std::from_chars(threads_max.data(), threads_max.data() + threads_max.size(), count).ec != std::errc())
    return fail(Code::internal, "threads-max is no number");
  SPACE_TRY(const Fd folder, open_fd(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  SPACE_CHECK(write_control(folder.get(), "cgroup.subtree_control", "+pids"));
  return write_control(user_folder, "pids.max", std::to_string(count / 4));
}

}  // namespace

std::optional<std::uint64_t> keyed_number(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(key)) continue;
    line.remove_prefix(key.size());
    const std::size_t digits = line.find_first_not_of(": \t");
    if (digits == 0 || digits == std::string_view::npos) continue;  // a longer key, or no value
    std::uint64_t value = 0;
    if (std::from_chars(line.data() + digits, line.data() + line.size(), value).ec == std::errc())
      return value;
  }
  return std::nullopt;
}

Result<Cgroups> Cgroups::create(const std::string& root) {
  SPACE_CHECK(make_cgroup(root));
  SPACE_CHECK(make_cgroup(root + "/daemon"));
  SPACE_CHECK(make_cgroup(root + "/user"));
  SPACE_CHECK(make_cgroup(root + "/hooks"));
  SPACE_TRY(const Fd daemon, open_fd(root + "/daemon", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  SPACE_CHECK(write_control(daemon.get(), "cgroup.procs", "0"));
  Cgroups result;
  SPACE_TRY(result.user_, open_fd(root + "/user", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  SPACE_TRY(result.hooks_, open_fd(root + "/hooks", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (const auto limited = limit_processes(root, result.user_.get()); !limited)
    log::warn("the processes of users are not limited", {log::Field(limited.error())});
  return result;
}

Task<Result<void>> Cgroups::freeze(Deadline deadline, std::function<bool()> overtaken) {
  SPACE_CO_CHECK(write_control(user_.get(), "cgroup.freeze", "1"));
  for (;;) {
    SPACE_CO_TRY(const std::uint64_t frozen, read_number(user_.get(), "cgroup.events", "frozen"));
    if (frozen != 0) co_return Result<void>();
    if (deadline.passed()) co_return fail(Code::deadline, "the user cgroup did not freeze in time");
    co_await sleep_for(Millis(1));
    if (overtaken()) co_return fail(Code::conflict, "another call came before the user cgroup was frozen");
  }
}

Result<void> Cgroups::thaw() {
  return write_control(user_.get(), "cgroup.freeze", "0");
}

Result<void> Cgroups::adopt_left_of_hooks() {
  for (int round = 0; round < 8; ++round) {  // what is moved may have forked meanwhile
    SPACE_TRY(std::string pids, read_control(hooks_.get(), "cgroup.procs"));
    if (pids.empty()) return {};
    for (std::size_t end = pids.find('\n'); end != std::string::npos; end = pids.find('\n')) {
      (void)write_control(user_.get(), "cgroup.procs", pids.substr(0, end));  // it may be gone
      pids.erase(0, end + 1);
    }
  }
  return fail(Code::conflict, "hooks left programs that fork faster than they are moved");
}

// One by one: cgroup.kill ends, on some kernels, also the next program that is started in the cgroup.
Result<void> Cgroups::kill_hooks() {
  for (int round = 0; round < 8; ++round) {
    SPACE_TRY(std::string pids, read_control(hooks_.get(), "cgroup.procs"));
    if (pids.empty()) return {};
    for (std::size_t end = pids.find('\n'); end != std::string::npos; end = pids.find('\n')) {
      if (const int pid = std::atoi(pids.c_str()); pid > 1) ::kill(pid, SIGKILL);
      pids.erase(0, end + 1);
    }
  }
  return {};
}

Result<std::uint64_t> Cgroups::cpu_used_us() const {
  return read_number(user_.get(), "cpu.stat", "usage_usec");
}

Result<std::uint64_t> Cgroups::tasks() const {
  SPACE_TRY(const std::string text, read_control(user_.get(), "pids.current"));
  std::uint64_t count = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), count).ec != std::errc())
    return fail(Code::internal, "pids.current is no number");
  return count;
}

Result<bool> Cgroups::populated() const {
  SPACE_TRY(const std::uint64_t populated, read_number(user_.get(), "cgroup.events", "populated"));
  return populated != 0;
}

}  // namespace space::guest

#include "cli/doctor/host_machine.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <filesystem>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/fd.h"

namespace space::cli::doctor {

namespace {

constexpr std::size_t text_bytes_max = 4 << 20;
constexpr off_t tail_bytes_max = 256 << 10;
constexpr Millis output_limit{10'000};

// Unlike read_file, a longer file is cut, not an error.
std::string read_some(int fd, std::size_t limit) {
  std::string text;
  std::array<char, 16384> buffer;
  while (text.size() < limit) {
    const ssize_t n = ::read(fd, buffer.data(), std::min(buffer.size(), limit - text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

// Until the end of the pipe or the deadline; true: the end came.
bool drain(int fd, std::string& text, Deadline deadline) {
  while (true) {
    pollfd watched{.fd = fd, .events = POLLIN, .revents = 0};
    if (deadline.passed()) return false;
    if (::poll(&watched, 1, 100) <= 0) continue;
    std::array<char, 4096> buffer;
    const ssize_t n = ::read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    if (text.size() < text_bytes_max) text.append(buffer.data(), static_cast<std::size_t>(n));
  }
}

[[noreturn]] void execute(const std::vector<std::string>& argv, int out) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

std::optional<std::string> HostMachine::text(const std::string& path) const {
  const auto fd = open_fd(path, O_RDONLY | O_NONBLOCK);
  if (!fd) return std::nullopt;
  return read_some(fd->get(), text_bytes_max);
}

std::optional<std::string> HostMachine::tail(const std::string& path) const {
  const auto fd = open_fd(path, O_RDONLY | O_NONBLOCK);
  if (!fd) return std::nullopt;
  const off_t size = ::lseek(fd->get(), 0, SEEK_END);
  ::lseek(fd->get(), std::max<off_t>(0, size - tail_bytes_max), SEEK_SET);
  return read_some(fd->get(), tail_bytes_max);
}

std::optional<FileFacts> HostMachine::file(const std::string& path) const {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileFacts{.mode = status.st_mode,
                   .uid = status.st_uid,
                   .gid = status.st_gid,
                   .major = major(status.st_rdev),
                   .minor = minor(status.st_rdev),
                   .bytes = static_cast<std::uint64_t>(status.st_size),
                   .allocated_bytes = static_cast<std::uint64_t>(status.st_blocks) * 512,
                   .modified_s = status.st_mtim.tv_sec};
}

std::optional<std::string> HostMachine::link(const std::string& path) const {
  std::array<char, PATH_MAX> target{};
  const ssize_t n = ::readlink(path.c_str(), target.data(), target.size());
  if (n < 0) return std::nullopt;
  return std::string(target.data(), static_cast<std::size_t>(n));
}

std::vector<std::string> HostMachine::names(const std::string& folder) const {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::optional<DiskFacts> HostMachine::disk(const std::string& path) const {
  struct statvfs status{};
  if (::statvfs(path.c_str(), &status) != 0) return std::nullopt;
  return DiskFacts{.total_bytes = status.f_blocks * status.f_frsize,
                   .free_bytes = status.f_bavail * status.f_frsize,
                   .files = status.f_files,
                   .free_files = status.f_favail};
}

std::optional<std::string> HostMachine::output(const std::vector<std::string>& argv) const {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return std::nullopt;
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return std::nullopt;
  if (child == 0) execute(argv, write_end.get());
  write_end.reset();
  std::string text;
  if (!drain(read_end.get(), text, Deadline::after(output_limit))) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

bool HostMachine::locked(const std::string& path) const {
  const auto fd = open_fd(path, O_RDONLY);
  return fd && ::flock(fd->get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

uid_t HostMachine::user() const {
  return ::geteuid();
}

std::int64_t HostMachine::now_s() const {
  return std::chrono::floor<std::chrono::seconds>(system_clock().wall()).time_since_epoch().count();
}

std::uint64_t HostMachine::descriptor_limit() const {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 0;
}

int HostMachine::landlock_abi() const {
  return std::max(0, static_cast<int>(::syscall(SYS_landlock_create_ruleset, nullptr, 0,
                                                LANDLOCK_CREATE_RULESET_VERSION)));
}

std::string HostMachine::own_folder() const {
  const std::string program = link("/proc/self/exe").value_or("/");
  return program.substr(0, program.rfind('/'));
}

}  // namespace space::cli::doctor

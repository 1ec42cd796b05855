#include "cli/install.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

#include "base/fd.h"

namespace space::cli {

namespace {

Result<std::string> own_folder() {
  std::array<char, PATH_MAX> path{};
  const ssize_t n = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (n <= 0) return fail_errno(errno, "read /proc/self/exe");
  const std::string full(path.data(), static_cast<std::size_t>(n));
  return full.substr(0, full.rfind('/'));
}

}  // namespace

Result<std::string> sibling_program(const std::string& name) {
  SPACE_TRY(const std::string folder, own_folder());
  std::string path = folder + "/" + name;
  if (::access(path.c_str(), X_OK) != 0)
    return fail(Code::not_found, "{} is missing: build or install SPACE again (sudo ./tools/dev build)",
                path);
  return path;
}

Result<std::string> images_folder() {
  SPACE_TRY(const std::string folder, own_folder());
  for (std::string candidate : {folder + "/../share/space/images", folder + "/../../images"})
    if (::access((candidate + "/build.sh").c_str(), X_OK) == 0) return candidate;
  return fail(Code::not_found, "the image recipes are missing (looked beside {}); install SPACE again",
              folder);
}

Result<std::string> run_program_capture(const std::vector<std::string>& argv) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "pipe");
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return fail_errno(errno, "fork");
  if (child == 0) {
    ::dup2(write_end.get(), STDOUT_FILENO);
    std::vector<char*> arguments;
    for (const std::string& argument : argv) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  write_end.reset();
  std::string output;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t n = ::read(read_end.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    if (output.size() < 1024 * 1024) output.append(buffer.data(), static_cast<std::size_t>(n));
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(Code::internal, "{} failed (exit {}); its messages are above", argv.front(),
                WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return output;
}

}  // namespace space::cli

// Stands in for QEMU under space-noded: same command line, same descriptors, but it does what the test says.
// Takes connections on the descriptor where QEMU's QMP socket is; one command a connection:
//   report  writes what it sees of itself      exit     ends with status 7
//   eat     takes memory until it is killed    flood    writes 1 MiB to standard error
//   fork    leaves eight children behind       close    closes its output, as a hostile one may
#include <dirent.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int qmp = 3;

std::string content_of(const char* path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::string link_of(const std::string& path) {
  char target[256] = {};
  return ::readlink(path.c_str(), target, sizeof target - 1) < 0 ? "?" : target;
}

std::string report() {
  std::string text = content_of("/proc/self/status") + content_of("/proc/self/limits") +
                     content_of("/proc/self/cgroup") + "devices:\n" + content_of("/proc/net/dev");
  for (const char* space : {"net", "ipc", "uts"})
    text += "namespace " + link_of(std::string("/proc/self/ns/") + space) + "\n";
  for (char** entry = environ; *entry != nullptr; ++entry)
    text += std::string("environment ") + *entry + "\n";
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder))
    if (entry->d_name[0] != '.' && std::atoi(entry->d_name) != ::dirfd(folder))
      text += std::string("fd ") + entry->d_name + " " +
              link_of(std::string("/proc/self/fd/") + entry->d_name) + "\n";
  ::closedir(folder);
  text += "session " + std::string(::getsid(0) == ::getpid() ? "own" : "supervisor's") + "\n";
  return text;
}

void eat() {
  static std::vector<std::string> eaten;  // kept in sight of the compiler
  for (;;) eaten.emplace_back(1 << 20, 'x');
}

void flood() {
  const std::string line(1023, 'x');
  for (int i = 0; i < 1024; ++i) (void)!::write(2, (line + "\n").data(), 1024);
}

void leave_children() {
  for (int i = 0; i < 8; ++i)
    if (::fork() == 0) {
      ::setsid();
      ::close_range(3, ~0U, 0);
      for (;;) ::pause();
    }
}

void obey(int connection) {
  char command[16] = {};
  if (::read(connection, command, sizeof command - 1) <= 0) return;
  const std::string word = command;
  std::string answer = "done\n";
  if (word == "report") answer = report();
  if (word == "exit") ::_exit(7);
  if (word == "eat") eat();
  if (word == "flood") flood();
  if (word == "fork") leave_children();
  if (word == "close") ::close(1), ::close(2);
  (void)!::write(connection, answer.data(), answer.size());
}

}  // namespace

int main() {
  (void)!::write(2, "started\n", 8);
  for (;;) {
    const int connection = ::accept(qmp, nullptr, nullptr);
    if (connection < 0) return 1;
    obey(connection);
    ::close(connection);
  }
}

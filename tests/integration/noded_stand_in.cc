// Stands in for QEMU under space-noded: same command line, same descriptors, but it does what the test says.
// Takes connections on the descriptor where QEMU's QMP socket is; one command a connection:
//   report  writes what it sees around it      exit     ends with status 7
//   eat     takes memory until it is killed    flood    writes 1 MiB to standard error
//   fork    tries to make a child              close    closes its output, as a hostile one may
//   crash   writes to address 8              memory   the first 16 bytes of its memory base, read anew
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int qmp = 3;

std::string report() {
  std::string text;
  for (char** entry = environ; *entry != nullptr; ++entry)
    text += std::string("environment ") + *entry + "\n";
  for (const char* folder : {"/", "/proc", "/etc", "/memory", "/kernel", "/vmm"})
    text += std::string(folder) + (::access(folder, F_OK) == 0 ? " is there\n" : " is not there\n");
  utsname names{};
  ::uname(&names);
  return text + "host " + names.nodename + "\n";
}

std::string start_of_memory() {
  char bytes[16] = {};
  const int fd = ::open("/memory", O_RDONLY);
  const ssize_t got = ::read(fd, bytes, sizeof bytes);
  ::close(fd);
  return got < 0 ? "unreadable" : std::string(bytes, static_cast<std::size_t>(got));
}

void eat() {
  static std::vector<std::string> eaten;  // kept in sight of the compiler
  for (;;) eaten.emplace_back(1 << 20, 'x');
}

void flood() {
  const std::string line(1023, 'x');
  for (int i = 0; i < 1024; ++i) (void)!::write(2, (line + "\n").data(), 1024);
}

void obey(int connection) {
  char command[16] = {};
  if (::read(connection, command, sizeof command - 1) <= 0) return;
  const std::string word = command;
  std::string answer = "done\n";
  if (word == "report") answer = report();
  if (word == "memory") answer = start_of_memory();
  if (word == "exit") ::_exit(7);
  if (word == "eat") eat();
  if (word == "flood") flood();
  if (word == "fork" && ::fork() == 0) ::_exit(0);
  if (word == "crash") *reinterpret_cast<volatile int*>(8) = 1;
  if (word == "close") ::close(1), ::close(2);
  (void)!::write(connection, answer.data(), answer.size());
}

}  // namespace

int main() {
  (void)!::write(2, "started\n", 8);
  for (;;) {
    const int connection = ::accept4(qmp, nullptr, nullptr, 0);
    if (connection < 0) return 1;
    obey(connection);
    ::close(connection);
  }
}

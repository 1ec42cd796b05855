// A hostile program in the place of QEMU, launched by space-noded itself: what a guest would be that has
// taken its VMM over. It has QEMU's descriptors and takes commands on the one of QMP, one a connection:
//   row NAME [NAME=NUMBER...]   tries a row of the probe
//   open PATH, write PATH       opens it, or makes and opens it for writing
//   connect PATH                to a unix socket
//   hunt TEXT                   counts files and descriptors that hold the text
//   put TEXT, frame TEXT        writes it to its disk, or into a frame for everybody
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>

#include "tests/jail/probe.h"

namespace {

using namespace space::jail;

// The numbers that the command line of a VMM gives.
constexpr int qmp = 3, tap = 5, disk = 6, program = 7;
constexpr int virtio_header = 10;  // before each frame of a tap

bool holds(int fd, const std::string& text) {
  static std::array<char, 1 << 20> buffer;
  off_t at = 0;
  // From one written part to the next: a disk is mostly holes.
  while ((at = ::lseek(fd, at, SEEK_DATA)) >= 0) {
    const ssize_t got = ::pread(fd, buffer.data(), buffer.size(), at);
    if (got <= 0) return false;
    if (::memmem(buffer.data(), static_cast<std::size_t>(got), text.data(), text.size()) != nullptr)
      return true;
    at += got;
  }
  return false;
}

int hunt_below(const std::string& folder, const std::string& text) {
  int found = 0;
  DIR* entries = ::opendir(folder.c_str());
  if (entries == nullptr) return 0;
  while (const dirent* entry = ::readdir(entries)) {
    if (entry->d_name[0] == '.') continue;
    const std::string path = folder + "/" + entry->d_name;
    if (entry->d_type == DT_DIR) {
      found += hunt_below(path, text);
    } else if (const int fd = ::open(path.c_str(), O_RDONLY); fd >= 0) {
      found += holds(fd, text);
      ::close(fd);
    }
  }
  ::closedir(entries);
  return found;
}

// Its root cannot be listed, so the folders and files that can be there are named as well.
std::string hunt(const std::string& text) {
  int found = hunt_below("/", text);
  for (const char* file : {"/memory", "/kernel", "/initramfs", "/vmm", "/landlock-canary"})
    if (const int fd = ::open(file, O_RDONLY); fd >= 0) {
      found += holds(fd, text);
      ::close(fd);
    }
  for (const char* folder : {"/usr", "/lib", "/lib64", "/proc", "/sys", "/dev", "/run", "/tmp", "/etc"})
    found += hunt_below(folder, text);
  for (int fd = 0; fd < 512; ++fd)
    if (fd != qmp) found += holds(fd, text);
  return std::to_string(found);
}

const char* connect_to(const std::string& path) {
  const long fd = call(SYS_socket, AF_UNIX, SOCK_SEQPACKET, 0);
  if (fd < 0) return outcome(fd);
  sockaddr_un address{.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return outcome(call(SYS_connect, fd, address_of(&address), sizeof address));
}

const char* send_frame(const std::string& text) {
  std::string frame(virtio_header, '\0');
  frame.append(6, '\xff');  // to everybody
  frame.append("\x02\0\0\0\0\x01", 6);
  frame.append("\x88\xb5", 2);  // a kind for experiments
  frame += text;
  frame.resize(virtio_header + 64, '\0');
  return outcome(call(SYS_write, tap, address_of(frame.data()), static_cast<long>(frame.size())));
}

std::string try_row(std::istringstream& words) {
  std::string name;
  words >> name;
  for (std::string setting; words >> setting;) take_setting(setting.c_str());
  const Row* row = find_row(name.c_str());
  return row == nullptr ? "no such row" : row->attempt();
}

std::string obey(const std::string& line) {
  std::istringstream words(line);
  std::string command, argument;
  words >> command;
  if (command == "row") return try_row(words);
  words >> argument;
  if (command == "open") return outcome(call(SYS_openat, AT_FDCWD, address_of(argument.c_str()), O_RDONLY));
  if (command == "write")
    return outcome(call(SYS_openat, AT_FDCWD, address_of(argument.c_str()), O_WRONLY | O_CREAT, 0666));
  if (command == "connect") return connect_to(argument);
  if (command == "hunt") return hunt(argument);
  if (command == "put")
    return outcome(
        call(SYS_pwrite64, disk, address_of(argument.data()), static_cast<long>(argument.size()), 0));
  if (command == "frame") return send_frame(argument);
  return "no such command";
}

}  // namespace

int main() {
  given.qmp = qmp, given.tap = tap, given.disk = disk, given.program = given.end = program;
  for (;;) {
    const int accepted = ::accept4(qmp, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted < 0) continue;
    // Out of the way of the numbers that rows put things under.
    const int connection = ::fcntl(accepted, F_DUPFD_CLOEXEC, 100);
    ::close(accepted);
    char line[512] = {};
    if (::read(connection, line, sizeof line - 1) > 0) {
      const std::string answer = obey(line);
      (void)!::write(connection, answer.data(), answer.size());
    }
    ::close(connection);
  }
}

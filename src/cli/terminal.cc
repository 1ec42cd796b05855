#include "cli/terminal.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace space::cli {

namespace {

constexpr char ctrl_p = 0x10;
constexpr char ctrl_q = 0x11;

}  // namespace

RawTerminal::RawTerminal() {
  if (::tcgetattr(STDIN_FILENO, &saved_) != 0) return;
  termios raw = saved_;
  ::cfmakeraw(&raw);
  active_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

RawTerminal::~RawTerminal() {
  if (active_) ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_);
}

bool stdin_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

TerminalSize terminal_size() {
  winsize size{};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return {};
  return {.columns = size.ws_col, .rows = size.ws_row};
}

JsonObject to_json(const TerminalSize& size) {
  return JsonObject{{"size", JsonObject{{"cols", size.columns}, {"rows", size.rows}}}};
}

Fd open_stdin() {
  struct stat info{};
  // A file has one position for all who hold it; a socket cannot be opened again.
  const bool again = ::fstat(STDIN_FILENO, &info) == 0 && (S_ISCHR(info.st_mode) || S_ISFIFO(info.st_mode));
  Fd fd(again ? ::open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1);
  return fd ? std::move(fd) : Fd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
}

std::string DetachKeys::filter(std::string_view typed) {
  std::string out;
  for (const char key : typed) {
    if (detached_) break;
    if (half_ && key == ctrl_q) {
      detached_ = true;
      continue;
    }
    if (half_) out += ctrl_p;  // it began no pair
    half_ = key == ctrl_p;
    if (!half_) out += key;
  }
  return out;
}

}  // namespace space::cli

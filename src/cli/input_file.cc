#include "cli/input_file.h"

#include <unistd.h>

#include "base/fd.h"

namespace space::cli {

Result<std::string> read_input(const std::string& path, std::size_t bytes_max) {
  if (path != "-") return read_file(path, bytes_max);
  std::string text;
  char piece[4096];
  while (text.size() <= bytes_max) {
    const ssize_t count = ::read(STDIN_FILENO, piece, sizeof piece);
    if (count < 0) return fail_errno(errno, "reading standard input");
    if (count == 0) return text;
    text.append(piece, static_cast<std::size_t>(count));
  }
  return fail(Code::invalid_argument, "standard input has more than {} bytes", bytes_max);
}

}  // namespace space::cli

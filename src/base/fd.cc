#include "base/fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/bytes.h"

namespace space {

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<Fd> open_fd(const std::string& path, int flags, unsigned mode) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (fd < 0) return fail_errno(errno, "open " + path);
  return Fd(fd);
}

Result<std::string> read_file(const std::string& path, std::size_t limit_bytes) {
  SPACE_TRY(Fd fd, open_fd(path, O_RDONLY));
  std::string content;
  char buffer[16384];
  while (true) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "read " + path);
    if (n == 0) return content;
    if (content.size() + static_cast<std::size_t>(n) > limit_bytes)
      return fail(Code::exhausted, "{} is larger than {} bytes", path, limit_bytes);
    content.append(buffer, static_cast<std::size_t>(n));
  }
}

Result<void> write_file_durably(const std::string& path, std::string_view content, unsigned mode) {
  const std::string temporary = path + ".new";
  {
    SPACE_TRY(Fd fd, open_fd(temporary, O_WRONLY | O_CREAT | O_TRUNC, mode));
    SPACE_CHECK(write_all(fd.get(), as_bytes(content)));
    if (::fsync(fd.get()) != 0) return fail_errno(errno, "fsync " + temporary);
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail_errno(errno, "rename to " + path);
  SPACE_TRY(Fd folder, open_fd(path.substr(0, path.find_last_of('/') + 1), O_RDONLY | O_DIRECTORY));
  if (::fsync(folder.get()) != 0) return fail_errno(errno, "fsync folder of " + path);
  return {};
}

Result<void> write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(errno, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace space

#include "guest/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace space::guest {

namespace {

Result<void> give_to(int fd, const User& user, const std::string& path) {
  if (user.uid == ::geteuid() && user.gid == ::getegid()) return {};
  if (::fchown(fd, user.uid, user.gid) != 0)
    return fail_errno(errno, fmt::format("give '{}' to the user", path));
  return {};
}

}  // namespace

Result<Bytes> read_chunk(int fd) {
  Bytes bytes(file_chunk_bytes);
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t count = ::read(fd, bytes.data() + size, bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail_errno(errno, "read the file");
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  bytes.resize(size);
  return bytes;
}

Result<OpenFile> open_to_read(const std::string& path) {
  OpenFile file;
  // Not blocking: opening a named pipe must not wait for its writer.
  file.fd.reset(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.fd && (errno == ENOENT || errno == ENOTDIR))
    return fail(Code::not_found, "path '{}' does not exist", path);
  if (!file.fd) return fail_errno(errno, fmt::format("open '{}'", path));
  if (::fstat(file.fd.get(), &file.status) != 0) return fail_errno(errno, fmt::format("stat '{}'", path));
  if (S_ISDIR(file.status.st_mode)) return fail(Code::invalid_argument, "path '{}' is a directory", path);
  if (!S_ISREG(file.status.st_mode))
    return fail(Code::invalid_argument, "path '{}' is not a regular file", path);
  SPACE_TRY(file.first, read_chunk(file.fd.get()));
  file.whole = file.first.size() < file_chunk_bytes;
  return file;
}

Result<void> make_folders(const std::string& path, const User& user) {
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    if (::mkdir(folder.c_str(), 0755) == 0) {
      const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (!fd) return fail_errno(errno, fmt::format("open '{}'", folder));
      SPACE_CHECK(give_to(fd.get(), user, folder));
    } else if (errno != EEXIST) {
      return fail_errno(errno, fmt::format("make folder '{}'", folder));
    }
    if (end == std::string::npos) return {};
  }
}

Result<Fd> open_to_write(const std::string& path, const User& user) {
  constexpr int flags = O_WRONLY | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Fd fd(::open(path.c_str(), flags));
  if (!fd && errno == ENOENT) {
    const std::size_t slash = path.rfind('/');
    if (slash != 0 && slash != std::string::npos) SPACE_CHECK(make_folders(path.substr(0, slash), user));
    fd.reset(::open(path.c_str(), flags | O_CREAT, 0666));
  }
  if (!fd && errno == EISDIR) return fail(Code::invalid_argument, "path '{}' is a directory", path);
  if (!fd) return fail_errno(errno, fmt::format("open '{}'", path));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_errno(errno, fmt::format("stat '{}'", path));
  if (!S_ISREG(status.st_mode)) return fail(Code::invalid_argument, "path '{}' is not a regular file", path);
  SPACE_CHECK(give_to(fd.get(), user, path));
  return fd;
}

}  // namespace space::guest

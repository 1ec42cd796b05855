#include "guest/file_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "base/path_text.h"
#include "guest/folder_path.h"

namespace space::guest {

namespace {

Result<void> give_to(int fd, const User& user, const std::string& path) {
  if (user.uid == ::geteuid() && user.gid == ::getegid()) return {};
  if (::fchown(fd, user.uid, user.gid) != 0)
    return fail_errno(errno, fmt::format("give '{}' to the user", shown_path(path)));
  return {};
}

std::unexpected<Error> cannot_open(int error_number, const std::string& path) {
  if (error_number == ENOENT || error_number == ENOTDIR)
    return fail(Code::not_found, "path '{}' does not exist", shown_path(path));
  if (error_number == EISDIR)
    return fail(Code::invalid_argument, "path '{}' is a directory", shown_path(path));
  return fail_errno(error_number, fmt::format("open '{}'", shown_path(path)));
}

Result<struct stat> stat_regular(int fd, const std::string& path) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return fail_errno(errno, fmt::format("stat '{}'", shown_path(path)));
  if (S_ISDIR(status.st_mode))
    return fail(Code::invalid_argument, "path '{}' is a directory", shown_path(path));
  if (!S_ISREG(status.st_mode))
    return fail(Code::invalid_argument, "path '{}' is not a regular file", shown_path(path));
  return status;
}

Result<Place> place_to_write(const std::string& path, const User& user) {
  auto place = open_place(path);
  if (place || place.error().code != Code::not_found) return place;
  const std::size_t slash = path.rfind('/');
  SPACE_TRY(MadeFolder made, make_folder_path(path.substr(0, slash), user));
  return Place{std::move(made.folder), path.substr(slash + 1)};
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
  SPACE_TRY(const Place place, open_place(path));
  OpenFile file;
  // Not blocking: opening a named pipe must not wait for its writer.
  file.fd.reset(
      ::openat(place.folder.get(), place.name.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file.fd) return cannot_open(errno, path);
  SPACE_TRY(file.status, stat_regular(file.fd.get(), path));
  SPACE_TRY(file.first, read_chunk(file.fd.get()));
  file.whole = file.first.size() < file_chunk_bytes;
  return file;
}

Result<Fd> open_to_write(const std::string& path, const User& user) {
  SPACE_TRY(const Place place, place_to_write(path, user));
  constexpr int flags = O_WRONLY | O_TRUNC | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  Fd fd(::openat(place.folder.get(), place.name.c_str(), flags, 0666));
  if (!fd) return cannot_open(errno, path);
  SPACE_CHECK(stat_regular(fd.get(), path));
  SPACE_CHECK(give_to(fd.get(), user, path));
  return fd;
}

int file_error_status(const Error& error) {
  switch (error.code) {
    case Code::invalid_argument:
      return 400;
    case Code::unauthenticated:
      return 401;
    case Code::permission_denied:
      return 403;
    case Code::not_found:
      return 404;
    case Code::conflict:
      return 409;
    case Code::exhausted:
      return 507;
    default:
      return 500;
  }
}

}  // namespace space::guest

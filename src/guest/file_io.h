// The blocking half of /files: plain system calls on the guest's own file system. Paths are absolute bytes of
// any length.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/bytes.h"
#include "base/fd.h"
#include "guest/users.h"

namespace space::guest {

inline constexpr std::size_t file_chunk_bytes = 256 * 1024;

struct OpenFile {
  Fd fd;
  struct stat status{};
  Bytes first;         // up to file_chunk_bytes
  bool whole = false;  // `first` is all of it
};
// A regular file and its first piece. Folder or special file: invalid_argument; missing: not_found.
Result<OpenFile> open_to_read(const std::string& path);
// At most file_chunk_bytes; empty at the end.
Result<Bytes> read_chunk(int fd);

// Creates missing parents (0755) and the file (0666 less the umask) for `user`; truncates an existing one.
Result<Fd> open_to_write(const std::string& path, const User& user);

// How HTTP says it.
int file_error_status(const Error& error);

}  // namespace space::guest

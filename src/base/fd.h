// Fd: the one owner of a file descriptor. Closes it in the destructor.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace space {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// Blocking helpers for small local files. `path` is one we made, never one a client or guest named.
Result<Fd> open_fd(const std::string& path, int flags, unsigned mode = 0);
Result<std::string> read_file(const std::string& path, std::size_t limit_bytes);
// Writes a temporary file beside `path`, fsyncs it, renames it over `path`, fsyncs the folder.
Result<void> write_file_durably(const std::string& path, std::string_view content, unsigned mode);
Result<void> write_all(int fd, std::span<const std::byte> bytes);

}  // namespace space

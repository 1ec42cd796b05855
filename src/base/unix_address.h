// The address of a unix socket, from its path.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string_view>

#include "base/result.h"

namespace space {

class UnixAddress {
 public:
  // invalid_argument: the path is empty, or longer than the kernel takes (107 bytes).
  static Result<UnixAddress> of(std::string_view path);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address_); }
  socklen_t size() const { return sizeof address_; }

 private:
  sockaddr_un address_{};
};

}  // namespace space

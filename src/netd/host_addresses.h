// HostAddresses: the node's own addresses as its kernel has them, by netlink.
#pragma once

#include <vector>

#include "base/fd.h"
#include "core/ip_address.h"
#include "net/task.h"

namespace space::netd {

class HostAddresses {
 public:
  // Opens what it needs for good: no socket of this kind is made later.
  static Result<HostAddresses> open();

  // Of all interfaces. Blocking, but it is the kernel that answers, at once.
  Result<std::vector<Cidr>> read();
  // Ends when an address came or went since.
  Task<Result<void>> wait_for_change();

 private:
  HostAddresses(Fd questions, Fd changes) : questions_(std::move(questions)), changes_(std::move(changes)) {}

  Fd questions_;
  Fd changes_;
  std::uint32_t sequence_ = 0;
};

}  // namespace space::netd

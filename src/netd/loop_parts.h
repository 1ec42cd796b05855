// What the sandboxes of one loop share. Belongs to that loop, but for the budget, which all loops share.
#pragma once

#include <functional>
#include <memory>

#include "base/bytes.h"
#include "core/platform_deny.h"
#include "netd/fd_budget.h"
#include "netd/resolver.h"

namespace space::netd {

struct LoopParts {
  Executor executor;
  std::unique_ptr<Resolver> resolver;
  FdBudget& descriptors;
  std::shared_ptr<const PlatformDeny> platform;
  Bytes scratch = Bytes(scratch_bytes);  // used between two waits only

  // Tests put loopback sockets in place of the world: where a guest's connection meant to go, by the port of
  // the listener that took it, and what is really dialled for an address.
  std::function<std::optional<std::pair<IpAddress, std::uint16_t>>(std::uint16_t)> meant = nullptr;
  std::function<SocketAddress(const IpAddress&, std::uint16_t)> route = to_sockaddr;

  static constexpr std::size_t scratch_bytes = 128 * 1024;
};

}  // namespace space::netd

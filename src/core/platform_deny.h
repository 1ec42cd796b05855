// PlatformDeny: where no sandbox may go, whatever its policy says: private, local, reserved and metadata
// addresses, and the node's own. IPv6 addresses are also looked at as the IPv4 addresses they can stand for.
// Pure.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/cidr_index.h"

namespace space {

class PlatformDeny {
 public:
  PlatformDeny() = default;
  // `own`: the node's addresses, its control plane's, what the operator adds.
  explicit PlatformDeny(std::vector<Cidr> own) : own_(std::move(own)) {}

  // The block that denies it. nullopt: public.
  std::optional<Cidr> hit(const IpAddress& address) const;
  // What an entry of a policy's "internal" that names `address` exactly, or a block around it, may open:
  // never what is never openable, the node's own only when named exactly.
  bool may_open(const IpAddress& address, bool named_exactly) const;

  // Of the constants alone. All of `block` is denied:
  static std::optional<Cidr> covering(const Cidr& block);
  // Nothing ever opens any of it: loopback, unspecified, link-local with its metadata services, multicast,
  // broadcast.
  static std::optional<Cidr> never_openable(const Cidr& block);
  static std::span<const Cidr> constants();

 private:
  CidrIndex own_;
};

}  // namespace space

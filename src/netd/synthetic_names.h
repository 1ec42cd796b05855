// SyntheticNames: with "dns":{"mode":"synthetic"} each name has an address of its own, which means nothing
// outside the sandbox, so that a flow of any protocol says by its destination where it wants to go. One a
// sandbox; belongs to one loop.
//
// An address is made from its name, so that the same name has the same one after a restart, unless another
// one took it before. At most 16,384 names; the one longest unused goes.
#pragma once

#include <list>
#include <map>
#include <string>
#include <string_view>

#include "core/ip_address.h"

namespace space::netd {

// 198.18.0.0/15 and fd53:5041:4345:1::/64. Only the guest's side of the gateway knows them.
bool is_synthetic(const IpAddress& address);

class SyntheticNames {
 public:
  static constexpr std::size_t max_names = 16'384;

  struct Pair {
    IpAddress v4, v6;
  };
  struct Taken {
    Pair addresses;
    std::string evicted;  // its addresses are free again; "" for none
    Pair evicted_addresses;
  };
  Taken take(std::string_view name);
  std::size_t size() const { return by_name_.size(); }

 private:
  using Order = std::list<std::pair<std::string, std::uint32_t>>;  // name and place, the newest use first

  std::uint32_t free_place(std::string_view name) const;

  Order names_;
  std::map<std::string, Order::iterator, std::less<>> by_name_;
  std::map<std::uint32_t, Order::iterator> by_place_;
};

}  // namespace space::netd

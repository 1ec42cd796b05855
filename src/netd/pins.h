// Pins: which names a sandbox was told for which address. What it dials is then judged by these names. One a
// sandbox; belongs to one loop.
//
// A pin lives an hour after its last use and as long as a flow holds it. At most 16,384 pins and 1 MiB of
// names: beyond that the one longest unused goes, held or not used for an hour or not, but one that is held.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "core/ip_address.h"

namespace space::netd {

class Pins {
 public:
  static constexpr std::size_t max_pins = 16'384;
  static constexpr std::size_t max_name_bytes = std::size_t{1} << 20;
  static constexpr std::size_t max_names_of_address = 32;
  static constexpr auto unused_life = std::chrono::hours(1);

  explicit Pins(const Clock& clock = system_clock());
  ~Pins();
  Pins(const Pins&) = delete;
  Pins& operator=(const Pins&) = delete;

  // The address was told for the name, which is canonical.
  void add(const IpAddress& address, std::string_view name);
  // The names told for the address, the newest first; this is a use of them.
  std::vector<std::string> names(const IpAddress& address);
  bool pinned(const IpAddress& address, std::string_view name);
  void remove(const IpAddress& address);

  // While it lives the pins of the address stay. May outlive the Pins.
  class Hold {
   public:
    Hold() = default;

   private:
    friend class Pins;
    explicit Hold(std::shared_ptr<const void> held) : held_(std::move(held)) {}
    std::shared_ptr<const void> held_;
  };
  Hold hold(const IpAddress& address);

  // What `other` was told too, as newest: a fork knows what its origin knew.
  void copy_from(const Pins& other);

  std::size_t size() const { return pins_.size(); }
  std::size_t name_bytes() const { return name_bytes_; }

 private:
  struct Pin {
    IpAddress address;
    std::string name;
    Monotonic used;
  };
  using Order = std::list<Pin>;  // the newest first
  struct OfAddress {
    std::vector<Order::iterator> pins;  // the newest last
    std::shared_ptr<const bool> token = std::make_shared<const bool>(true);
    bool held() const { return token.use_count() > 1; }
  };

  void use(Order::iterator pin);
  void erase(Order::iterator pin);
  void expire();
  bool too_large() const { return pins_.size() > max_pins || name_bytes_ > max_name_bytes; }

  const Clock& clock_;
  Order pins_;
  std::map<IpAddress, OfAddress> by_address_;
  std::size_t name_bytes_ = 0;
};

}  // namespace space::netd

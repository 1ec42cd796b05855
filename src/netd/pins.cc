#include "netd/pins.h"

#include <algorithm>

namespace space::netd {

Pins::Pins(const Clock& clock) : clock_(clock) {}
Pins::~Pins() = default;

void Pins::add(const IpAddress& address, std::string_view name) {
  OfAddress& of = by_address_[address];
  const auto known = std::ranges::find_if(of.pins, [&](const auto& pin) { return pin->name == name; });
  if (known != of.pins.end()) {
    std::rotate(known, known + 1, of.pins.end());
    use(of.pins.back());
    return;
  }
  pins_.push_front({.address = address, .name = std::string(name), .used = clock_.monotonic()});
  name_bytes_ += name.size();
  of.pins.push_back(pins_.begin());
  // A host of many names: the one told first goes, and of a held address too, as its flow is decided.
  if (of.pins.size() > max_names_of_address) erase(of.pins.front());
  expire();
}

std::vector<std::string> Pins::names(const IpAddress& address) {
  const auto of = by_address_.find(address);
  if (of == by_address_.end()) return {};
  std::vector<std::string> names;
  for (const auto pin : of->second.pins) {
    use(pin);
    names.push_back(pin->name);
  }
  std::ranges::reverse(names);
  return names;
}

bool Pins::pinned(const IpAddress& address, std::string_view name) {
  const auto of = by_address_.find(address);
  if (of == by_address_.end()) return false;
  const auto known =
      std::ranges::find_if(of->second.pins, [&](const auto& pin) { return pin->name == name; });
  if (known == of->second.pins.end()) return false;
  use(*known);
  return true;
}

void Pins::remove(const IpAddress& address) {
  const auto of = by_address_.find(address);
  if (of == by_address_.end()) return;
  for (const auto pin : of->second.pins) {
    name_bytes_ -= pin->name.size();
    pins_.erase(pin);
  }
  by_address_.erase(of);
}

Pins::Hold Pins::hold(const IpAddress& address) {
  const auto of = by_address_.find(address);
  return of == by_address_.end() ? Hold() : Hold(of->second.token);
}

void Pins::copy_from(const Pins& other) {
  for (auto pin = other.pins_.rbegin(); pin != other.pins_.rend(); ++pin) add(pin->address, pin->name);
}

void Pins::use(Order::iterator pin) {
  pin->used = clock_.monotonic();
  pins_.splice(pins_.begin(), pins_, pin);
}

void Pins::erase(Order::iterator pin) {
  const auto of = by_address_.find(pin->address);
  std::erase(of->second.pins, pin);
  if (of->second.pins.empty()) by_address_.erase(of);
  name_bytes_ -= pin->name.size();
  pins_.erase(pin);
}

// From the end: those unused for long, and for want of room the next ones. What is held counts as used now,
// so that it is looked at again only after everything else.
void Pins::expire() {
  const Monotonic old = clock_.monotonic() - unused_life;
  for (std::size_t looked_at = pins_.size(); looked_at > 0; --looked_at) {
    const auto last = std::prev(pins_.end());
    if (!too_large() && last->used > old) return;
    if (by_address_.find(last->address)->second.held()) {
      use(last);
    } else {
      erase(last);
    }
  }
}

}  // namespace space::netd

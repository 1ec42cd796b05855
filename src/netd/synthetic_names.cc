#include "netd/synthetic_names.h"

#include <cstring>

#include "base/sha256.h"

namespace space::netd {

namespace {

constexpr std::uint32_t v4_block = 0xc6120000;  // 198.18.0.0/15
constexpr std::uint32_t places = 1U << 17;
constexpr std::uint64_t v6_block = 0xfd53504143450001;

// The block's own address and its last one are nobody's.
constexpr bool usable(std::uint32_t place) {
  return place != 0 && place != places - 1;
}

SyntheticNames::Pair at(std::uint32_t place) {
  return {.v4 = IpAddress::v4(v4_block | place), .v6 = IpAddress::v6(v6_block, place)};
}

}  // namespace

bool is_synthetic(const IpAddress& address) {
  return address.is_v4() ? (address.low() & ~std::uint64_t{places - 1}) == v4_block
                         : address.high() == v6_block;
}

SyntheticNames::Taken SyntheticNames::take(std::string_view name) {
  const auto known = by_name_.find(name);
  if (known != by_name_.end()) {
    names_.splice(names_.begin(), names_, known->second);
    return {.addresses = at(known->second->second), .evicted = {}, .evicted_addresses = {}};
  }
  Taken taken;
  if (names_.size() == max_names) {
    taken.evicted = names_.back().first;
    taken.evicted_addresses = at(names_.back().second);
    by_name_.erase(names_.back().first);
    by_place_.erase(names_.back().second);
    names_.pop_back();
  }
  const std::uint32_t place = free_place(name);
  names_.emplace_front(std::string(name), place);
  by_name_.emplace(std::string(name), names_.begin());
  by_place_.emplace(place, names_.begin());
  taken.addresses = at(place);
  return taken;
}

std::uint32_t SyntheticNames::free_place(std::string_view name) const {
  const Sha256::Digest digest = Sha256().update(name).finish();
  std::uint32_t place = 0;
  std::memcpy(&place, digest.data(), sizeof place);
  place %= places;
  // At most an eighth of the places is taken.
  while (!usable(place) || by_place_.contains(place)) place = (place + 1) % places;
  return place;
}

}  // namespace space::netd

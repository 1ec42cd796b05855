#include "core/cidr_index.h"

#include <algorithm>

namespace space {
namespace {

// The address behind `address`; nullopt when it is the last of its family.
std::optional<IpAddress> next(const IpAddress& address) {
  if (address.is_v4()) {
    if (address.low() == 0xffffffff) return std::nullopt;
    return IpAddress::v4(static_cast<std::uint32_t>(address.low() + 1));
  }
  const std::uint64_t low = address.low() + 1;
  const std::uint64_t high = address.high() + (low == 0 ? 1 : 0);
  if (low == 0 && high == 0) return std::nullopt;
  return IpAddress::v6(high, low);
}

}  // namespace

CidrIndex::CidrIndex(std::vector<Cidr> blocks) : blocks_(std::move(blocks)) {
  std::ranges::sort(blocks_);
  const auto duplicates = std::ranges::unique(blocks_);
  blocks_.erase(duplicates.begin(), duplicates.end());
  outside_.reserve(blocks_.size());
  std::vector<std::size_t> open;  // blocks around the present place, outermost first
  // A boundary at the same address as the one before replaces it: only the innermost counts.
  const auto begin_at = [this](const IpAddress& first, std::size_t block) {
    if (!intervals_.empty() && intervals_.back().first == first)
      intervals_.back().block = block;
    else
      intervals_.push_back({first, block});
  };
  const auto close = [&] {
    const IpAddress last = blocks_[open.back()].last();
    open.pop_back();
    // Behind the last address of IPv4 the intervals of IPv6 begin; those start with none.
    if (const auto behind = next(last)) begin_at(*behind, open.empty() ? none : open.back());
  };
  begin_at(IpAddress::v4(0), none);
  bool in_v6 = false;
  for (std::size_t place = 0; place < blocks_.size(); ++place) {
    while (!open.empty() && !blocks_[open.back()].contains(blocks_[place])) close();
    if (!in_v6 && !blocks_[place].first().is_v4()) {
      begin_at(IpAddress::v6(0, 0), none);
      in_v6 = true;
    }
    outside_.push_back(open.empty() ? none : open.back());
    begin_at(blocks_[place].first(), place);
    open.push_back(place);
  }
  while (!open.empty()) close();
  if (!in_v6) begin_at(IpAddress::v6(0, 0), none);
}

std::size_t CidrIndex::find(const Cidr& block) const {
  const auto at = std::ranges::lower_bound(blocks_, block);
  return at != blocks_.end() && *at == block ? static_cast<std::size_t>(at - blocks_.begin()) : none;
}

std::size_t CidrIndex::smallest(const IpAddress& address) const {
  const auto behind = std::ranges::upper_bound(intervals_, address, {}, &Interval::first);
  return behind == intervals_.begin() ? none : std::prev(behind)->block;
}

std::size_t CidrIndex::smallest_over(const Cidr& block) const {
  std::size_t place = smallest(block.first());
  while (place != none && !blocks_[place].contains(block)) place = outside_[place];
  return place;
}

}  // namespace space

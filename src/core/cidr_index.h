// CidrIndex: of many blocks those that hold an address, most specific first. Immutable, pure.
//
// Blocks are nested or apart, never crossed: cut into disjoint intervals, each knows the smallest block it is
// in, and each block the next larger one. A look-up is a binary search and a walk outwards of at most 129.
#pragma once

#include <cstddef>
#include <vector>

#include "core/ip_address.h"

namespace space {

class CidrIndex {
 public:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  CidrIndex() = default;
  // Duplicates are one block.
  explicit CidrIndex(std::vector<Cidr> blocks);

  // Ordered; what the look-ups answer are places in it.
  const std::vector<Cidr>& blocks() const { return blocks_; }
  std::size_t find(const Cidr& block) const;             // exactly this one, or none
  std::size_t smallest(const IpAddress& address) const;  // that holds it, or none
  std::size_t smallest_over(const Cidr& block) const;    // that contains all of it (or is it), or none
  std::size_t outside(std::size_t place) const { return outside_[place]; }  // the next larger one, or none
  bool empty() const { return blocks_.empty(); }

 private:
  struct Interval {
    IpAddress first;  // up to the next interval's
    std::size_t block;
  };

  std::vector<Cidr> blocks_;
  std::vector<std::size_t> outside_;
  std::vector<Interval> intervals_;  // by first
};

}  // namespace space

#include "guest/utf8_tail.h"

#include <algorithm>
#include <utility>

namespace space::guest {
namespace {

constexpr unsigned at(std::byte byte) {
  return std::to_integer<unsigned>(byte);
}

bool is_continuation(unsigned byte) {
  return byte >= 0x80 && byte <= 0xBF;
}

// Of the whole character; 0: no character begins so.
std::size_t length_from(unsigned lead) {
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// After some leads not every continuation is one: overlong forms, surrogates, beyond U+10FFFF.
bool may_follow(unsigned lead, unsigned second) {
  if (lead == 0xE0) return second >= 0xA0;
  if (lead == 0xED) return second <= 0x9F;
  if (lead == 0xF0) return second >= 0x90;
  if (lead == 0xF4) return second <= 0x8F;
  return true;
}

}  // namespace

std::size_t unfinished_utf8(std::span<const std::byte> bytes) {
  std::size_t behind = 0;
  while (behind < std::min(bytes.size(), Utf8Tail::size_max) &&
         is_continuation(at(bytes[bytes.size() - 1 - behind])))
    ++behind;
  if (behind == bytes.size()) return 0;
  const auto tail = bytes.last(behind + 1);
  const unsigned lead = at(tail[0]);
  if (length_from(lead) <= tail.size()) return 0;
  if (behind > 0 && !may_follow(lead, at(tail[1]))) return 0;
  return tail.size();
}

std::span<const std::byte> Utf8Tail::join(std::span<std::byte> buffer) {
  const auto joined = buffer.subspan(size_max - size_);
  std::copy_n(held_.begin(), size_, joined.begin());
  size_ = unfinished_utf8(joined);
  std::ranges::copy(joined.last(size_), held_.begin());
  return joined.first(joined.size() - size_);
}

void Utf8Tail::hold(std::span<const std::byte> bytes) {
  size_ = std::min(bytes.size(), size_max);
  std::ranges::copy(bytes.first(size_), held_.begin());
}

std::span<const std::byte> Utf8Tail::take() {
  return std::span(held_).first(std::exchange(size_, 0));
}

}  // namespace space::guest

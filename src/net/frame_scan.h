// FrameScan: where the frames of an HTTP/2 client begin, by their lengths alone, and where something stands
// in the place of one that cannot be a frame. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace space {

class FrameScan {
 public:
  // The next bytes of a client's stream, which starts with the preface. How many of them are the session's:
  // fewer than all once a frame's place holds what is none. From there on no byte is taken any more. Bytes
  // inside a frame are never looked at.
  std::size_t take(std::span<const std::byte> bytes);
  bool ended() const { return ended_; }

 private:
  std::size_t left_ = 24;  // of the preface, or of a frame's payload
  std::uint32_t length_ = 0;
  int header_bytes_ = 0;  // of the header under way
  bool ended_ = false;
};

}  // namespace space

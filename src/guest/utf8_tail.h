// Utf8Tail: the beginning of a character at the end of a piece of output, held back for the piece that
// follows. Some clients decode every message by itself, so a character must not be split between two. Bytes
// that are no UTF-8 pass as they are; the order never changes. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace space::guest {

// How many bytes at the end begin a character that is not complete yet: 0 to 3.
std::size_t unfinished_utf8(std::span<const std::byte> bytes);

class Utf8Tail {
 public:
  static constexpr std::size_t size_max = 3;

  bool empty() const { return size_ == 0; }
  std::span<const std::byte> held() const { return std::span(held_).first(size_); }
  // Of another daemon's. At most size_max bytes of it.
  void hold(std::span<const std::byte> bytes);
  // `buffer`: size_max bytes of room, then a new piece. Answers what can be sent: what was held and the
  // piece, without a character it leaves unfinished, which is held now.
  std::span<const std::byte> join(std::span<std::byte> buffer);
  // What is held, held no longer. Valid until the next join.
  std::span<const std::byte> take();

 private:
  std::array<std::byte, size_max> held_{};
  std::size_t size_ = 0;
};

}  // namespace space::guest

// Decoding of chunked bodies. Untrusted bytes; fuzzed. Written out here because Beast's decoder needs a whole
// trailer in one buffer and asserts on a last chunk that arrives in small pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.h"

namespace space::http {

// Chunks and trailer of one body. Extensions and trailer fields are dropped, and limited in length. Strict:
// lines end in CR LF, sizes are hexadecimal digits with nothing around them.
class ChunkDecoder {
 public:
  struct Progress {
    std::size_t consumed = 0;
    std::size_t produced = 0;
  };
  // Stops at the end of the body, of `in`, or when there is content and `out` is full.
  Result<Progress> decode(std::string_view in, std::span<std::byte> out);
  bool done() const { return state_ == State::done; }

 private:
  enum class State : unsigned char {
    size,
    extension,
    size_newline,
    content,
    content_return,
    content_newline,
    trailer_start,
    trailer,
    trailer_newline,
    last_newline,
    done,
  };
  Result<void> step(char c);
  Result<void> size_digit(char c);
  Result<void> expect(char c, char wanted, State next);
  Result<void> skip(char c, State at_return);

  State state_ = State::size;
  std::uint64_t left_ = 0;  // of the chunk; while reading its size, the digits so far
  unsigned digits_ = 0;
  std::size_t skipped_ = 0;  // of the extension or trailer
};

}  // namespace space::http

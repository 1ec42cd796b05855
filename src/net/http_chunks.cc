#include "net/http_chunks.h"

#include <algorithm>
#include <cstring>

namespace space::http {
namespace {

constexpr std::size_t skipped_limit = 16 * 1024;
constexpr unsigned digits_limit = 16;  // what fits 64 bits

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::unexpected<Error> malformed() {
  return fail(Code::invalid_argument, "malformed chunked body");
}

}  // namespace

Result<ChunkDecoder::Progress> ChunkDecoder::decode(std::string_view in, std::span<std::byte> out) {
  Progress progress;
  while (progress.consumed < in.size() && state_ != State::done) {
    if (state_ != State::content) {
      SPACE_CHECK(step(in[progress.consumed++]));
      continue;
    }
    const std::size_t room = std::min(in.size() - progress.consumed, out.size() - progress.produced);
    const std::size_t n = std::min<std::uint64_t>(room, left_);
    if (n == 0) break;
    std::memcpy(out.data() + progress.produced, in.data() + progress.consumed, n);
    progress.consumed += n;
    progress.produced += n;
    left_ -= n;
    if (left_ == 0) state_ = State::content_return;
  }
  return progress;
}

Result<void> ChunkDecoder::step(char c) {
  switch (state_) {
    case State::size:
      return size_digit(c);
    case State::extension:
      return skip(c, State::size_newline);
    case State::size_newline:
      return expect(c, '\n', left_ > 0 ? State::content : State::trailer_start);
    case State::content_return:
      return expect(c, '\r', State::content_newline);
    case State::content_newline:
      digits_ = 0;
      skipped_ = 0;
      return expect(c, '\n', State::size);
    case State::trailer_start:
      if (c == '\r') return expect(c, '\r', State::last_newline);
      if (c == ' ' || c == '\t') return malformed();  // a folded field
      state_ = State::trailer;
      return skip(c, State::trailer_newline);
    case State::trailer:
      return skip(c, State::trailer_newline);
    case State::trailer_newline:
      return expect(c, '\n', State::trailer_start);
    case State::last_newline:
      return expect(c, '\n', State::done);
    case State::content:
    case State::done:
      break;
  }
  return malformed();
}

Result<void> ChunkDecoder::size_digit(char c) {
  if (const int value = hex_value(c); value >= 0) {
    if (++digits_ > digits_limit) return malformed();
    left_ = left_ << 4 | static_cast<unsigned>(value);
    return {};
  }
  if (digits_ == 0) return malformed();
  if (c == ';') return expect(c, ';', State::extension);
  return expect(c, '\r', State::size_newline);
}

Result<void> ChunkDecoder::expect(char c, char wanted, State next) {
  if (c != wanted) return malformed();
  state_ = next;
  return {};
}

Result<void> ChunkDecoder::skip(char c, State at_return) {
  if (c == '\r') return expect(c, '\r', at_return);
  const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  if (control && c != '\t') return malformed();
  if (++skipped_ > skipped_limit) return fail(Code::exhausted, "chunk extension or trailer is too long");
  return {};
}

}  // namespace space::http

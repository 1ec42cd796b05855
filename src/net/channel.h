// The private channel's attach handshake (api/channel.md): SYNC, then HTTP/2. Pure parsers; fuzzed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "base/bytes.h"
#include "net/stream.h"

namespace space::channel {

inline constexpr std::uint16_t version_min = 1;
inline constexpr std::uint16_t version_max = 1;
inline constexpr std::size_t nonce_bytes = 16;
inline constexpr std::size_t entropy_bytes = 64;

struct Sync {  // host -> guest, fixed size on the wire
  std::uint16_t version_lowest = version_min;
  std::uint16_t version_highest = version_max;
  std::uint64_t epoch = 0;  // grows with every attach of a sandbox
  std::array<std::byte, nonce_bytes> nonce{};
  std::int64_t wall_clock_us = 0;  // since 1970, UTC
  std::array<std::byte, entropy_bytes> entropy{};

  bool operator==(const Sync&) const = default;
};
struct SyncAck {              // guest -> host, fixed size on the wire
  std::uint16_t version = 0;  // chosen; 0 = no common version
  std::array<std::byte, nonce_bytes> nonce{};

  bool operator==(const SyncAck&) const = default;
};
Bytes encode(const Sync& sync);
Bytes encode(const SyncAck& ack);

// Finds a message (Sync or SyncAck) in a stream that may start with stale bytes of an earlier session. A
// found message consumes the bytes through its end; what follows it stays. Holds less than one message
// besides; drops at most `stale_limit_bytes` before it fails (Code::exhausted).
template <class Message>
class Scanner {
 public:
  explicit Scanner(std::size_t stale_limit_bytes = 16 * 1024 * 1024) : stale_limit_(stale_limit_bytes) {}
  // The next message of what was left and `bytes`. feed({}) goes on with what was left.
  Result<std::optional<Message>> feed(std::span<const std::byte> bytes);
  // What came after the message found last.
  Bytes take_rest() { return std::exchange(buffer_, {}); }

 private:
  Bytes buffer_;
  std::size_t dropped_ = 0;
  std::size_t stale_limit_;
};

// Host: sends SYNC, discards bytes until the guest echoes the nonce of the SYNC sent last, resends with a
// fresh nonce and the clock moved on every 250 ms without an echo. `sync.nonce` is ignored. Returns the
// stream positioned at the first byte of the HTTP/2 session. No common version: Code::conflict.
Task<Result<StreamPtr>> attach(StreamPtr transport, Sync sync, Deadline deadline);

}  // namespace space::channel

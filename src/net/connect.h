// The Connect protocol's JSON form as far as the daemon protocol needs it (api/envd.md): envelopes of
// streaming calls and the error vocabulary. Pure; fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/json.h"

namespace space::connect {

inline constexpr std::uint8_t flag_compressed = 0x01;
inline constexpr std::uint8_t flag_end_of_stream = 0x02;
inline constexpr std::size_t envelope_limit_bytes = 8 * 1024 * 1024;

enum class RpcCode : unsigned char {
  canceled,
  unknown,
  invalid_argument,
  deadline_exceeded,
  not_found,
  already_exists,
  permission_denied,
  resource_exhausted,
  failed_precondition,
  aborted,
  out_of_range,
  unimplemented,
  internal,
  unavailable,
  data_loss,
  unauthenticated,
};
std::string_view to_string(RpcCode code);  // "invalid_argument"
int http_status(RpcCode code);             // for unary calls
RpcCode rpc_code(Code code);

struct RpcError {
  RpcCode code = RpcCode::internal;
  std::string message;
};
std::string unary_error_body(const RpcError& error);  // {"code":"not_found","message":"…"}
Bytes envelope(std::uint8_t flags, std::string_view payload);
Bytes end_of_stream();  // 02 00000002 {}
Bytes end_of_stream(const RpcError& error);

struct Envelope {
  std::uint8_t flags = 0;
  std::string payload;
};

// Resumable parser: feed bytes as they come, take envelopes out. Holds at most one envelope beyond the limit
// check; a longer announced length or a compressed flag is an error before anything is allocated for it.
class EnvelopeReader {
 public:
  explicit EnvelopeReader(std::size_t limit_bytes = envelope_limit_bytes) : limit_(limit_bytes) {}
  void feed(std::span<const std::byte> bytes);
  Result<std::optional<Envelope>> next();
  bool empty() const { return buffer_.size() == offset_; }  // no half envelope pending

 private:
  std::size_t limit_;
  std::size_t offset_ = 0;
  std::string buffer_;
};

}  // namespace space::connect

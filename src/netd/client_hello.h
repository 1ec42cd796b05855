// The first message of a TLS client, read as it arrives: which server it names, before anything is dialled.
// Hostile bytes; pure; fuzzed. Reads one message and holds at most 16 KiB.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace space::netd {

class ClientHelloReader {
 public:
  enum class State : unsigned char {
    more,      // the message is not complete
    complete,  // the accessors may be asked; what follows in the stream is not ours
    not_tls,   // the bytes are no TLS handshake
    invalid,   // malformed, ambiguous (two names, an extension twice), or not complete after 16 KiB
  };
  static constexpr std::size_t max_bytes = std::size_t{16} << 10;

  // Bytes that were not fed before. Once the state is not `more`, nothing changes it.
  State feed(std::span<const std::byte> bytes);
  State state() const { return state_; }

  // As the client wrote it: not canonical, perhaps no name at all. None: the client named no server.
  const std::optional<std::string>& server_name() const { return server_name_; }
  const std::vector<std::string>& alpn() const { return alpn_; }
  // An encrypted ClientHello is inside, real or made up: the two cannot be told apart.
  bool ech() const { return ech_; }

 private:
  static constexpr std::size_t record_header_size = 5;

  std::size_t feed_header(std::span<const std::byte> bytes);
  std::size_t feed_payload(std::span<const std::byte> bytes);
  bool header_fits() const;
  void look_at_message();
  bool parse_body(std::span<const std::byte> body);
  bool parse_extensions(std::span<const std::byte> extensions);
  bool parse_extension(unsigned type, std::span<const std::byte> data);
  bool parse_server_names(std::span<const std::byte> data);
  bool parse_alpn(std::span<const std::byte> data);

  State state_ = State::more;
  std::size_t fed_ = 0;
  std::array<std::byte, record_header_size> header_{};
  std::size_t header_have_ = 0;
  std::size_t payload_left_ = 0;  // of the record whose header is complete
  Bytes message_;                 // the handshake message, without records

  std::optional<std::string> server_name_;
  std::vector<std::string> alpn_;
  bool ech_ = false;
};

}  // namespace space::netd

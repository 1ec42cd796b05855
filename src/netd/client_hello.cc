#include "netd/client_hello.h"

#include <algorithm>

#include "netd/wire_reader.h"

namespace space::netd {

namespace {

constexpr unsigned handshake_record = 22;
constexpr unsigned client_hello_message = 1;
constexpr std::size_t message_header_size = 4;
constexpr std::size_t max_record = std::size_t{16} << 10;
constexpr std::size_t max_session_id = 32;

// Extension types.
constexpr unsigned server_name_extension = 0;
constexpr unsigned alpn_extension = 16;
constexpr unsigned encrypted_client_hello_extension = 0xfe0d;

}  // namespace

ClientHelloReader::State ClientHelloReader::feed(std::span<const std::byte> bytes) {
  while (state_ == State::more && !bytes.empty()) {
    if (fed_ == max_bytes) {
      state_ = State::invalid;
      break;
    }
    const auto within = bytes.first(std::min(bytes.size(), max_bytes - fed_));
    const std::size_t used = payload_left_ == 0 ? feed_header(within) : feed_payload(within);
    fed_ += used;
    bytes = bytes.subspan(used);
  }
  return state_;
}

std::size_t ClientHelloReader::feed_header(std::span<const std::byte> bytes) {
  const std::size_t used = std::min(bytes.size(), record_header_size - header_have_);
  std::ranges::copy(bytes.first(used), header_.begin() + static_cast<std::ptrdiff_t>(header_have_));
  header_have_ += used;
  // The first byte that does not fit says it, so that other protocols need not wait for five.
  if (!header_fits()) {
    state_ = message_.empty() ? State::not_tls : State::invalid;
  } else if (header_have_ == record_header_size) {
    WireReader length(std::span<const std::byte>(header_).subspan(3));
    payload_left_ = length.u16();
    header_have_ = 0;
    if (payload_left_ == 0 || payload_left_ > max_record) state_ = State::invalid;
  }
  return used;
}

bool ClientHelloReader::header_fits() const {
  const bool type_fits = std::to_integer<unsigned>(header_[0]) == handshake_record;
  const bool version_fits = header_have_ < 2 || std::to_integer<unsigned>(header_[1]) == 3;
  return type_fits && version_fits;
}

std::size_t ClientHelloReader::feed_payload(std::span<const std::byte> bytes) {
  const std::size_t used = std::min(bytes.size(), payload_left_);
  message_.insert(message_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(used));
  payload_left_ -= used;
  look_at_message();
  return used;
}

void ClientHelloReader::look_at_message() {
  if (std::to_integer<unsigned>(message_.front()) != client_hello_message) {
    state_ = State::invalid;
    return;
  }
  if (message_.size() < message_header_size) return;
  WireReader length(std::span<const std::byte>(message_).subspan(1));
  const std::size_t wanted = message_header_size + length.u24();
  // A client sends nothing else in the records of this message: the answer to it comes first.
  if (wanted > max_bytes || message_.size() > wanted || (message_.size() == wanted && payload_left_ != 0)) {
    state_ = State::invalid;
  } else if (message_.size() == wanted) {
    const bool good = parse_body(std::span<const std::byte>(message_).subspan(message_header_size));
    state_ = good ? State::complete : State::invalid;
    message_ = Bytes();
  }
}

bool ClientHelloReader::parse_body(std::span<const std::byte> body) {
  WireReader in(body);
  const unsigned version = in.u16();
  in.take(32);  // random
  const auto session_id = in.field8();
  const auto ciphers = in.field16();
  const auto compression = in.field8();
  if (!in.ok() || version >> 8 != 3 || session_id.size() > max_session_id) return false;
  if (ciphers.empty() || ciphers.size() % 2 != 0 || compression.empty()) return false;
  if (in.at_end()) return true;  // a client of long ago
  const auto extensions = in.field16();
  return in.ok() && in.at_end() && parse_extensions(extensions);
}

bool ClientHelloReader::parse_extensions(std::span<const std::byte> extensions) {
  WireReader in(extensions);
  std::vector<unsigned> seen;
  while (!in.at_end()) {
    const unsigned type = in.u16();
    const auto data = in.field16();
    if (!in.ok() || !parse_extension(type, data)) return false;
    seen.push_back(type);
  }
  // Two readers of an extension that is there twice may each believe another one.
  std::ranges::sort(seen);
  return in.ok() && std::ranges::adjacent_find(seen) == seen.end();
}

bool ClientHelloReader::parse_extension(unsigned type, std::span<const std::byte> data) {
  switch (type) {
    case server_name_extension:
      return parse_server_names(data);
    case alpn_extension:
      return parse_alpn(data);
    case encrypted_client_hello_extension:
      ech_ = true;
      return true;
    default:
      return true;
  }
}

bool ClientHelloReader::parse_server_names(std::span<const std::byte> data) {
  WireReader in(data);
  WireReader list(in.field16());
  const unsigned type = list.u8();
  const auto name = list.field16();
  // One host name and nothing beside it; no other type of name was ever defined.
  if (!in.ok() || !in.at_end() || !list.ok() || !list.at_end() || type != 0) return false;
  server_name_.emplace(as_text(name));
  return true;
}

bool ClientHelloReader::parse_alpn(std::span<const std::byte> data) {
  WireReader in(data);
  WireReader list(in.field16());
  if (!in.ok() || !in.at_end() || list.at_end()) return false;
  while (!list.at_end()) {
    const auto protocol = list.field8();
    if (!list.ok() || protocol.empty()) return false;
    alpn_.emplace_back(as_text(protocol));
  }
  return true;
}

}  // namespace space::netd

// The first message of a TLS client says the same however it is split, and holds no more than it may.
#include <cstdlib>

#include "netd/client_hello.h"

namespace {

using space::netd::ClientHelloReader;

void require(bool condition) {
  if (!condition) std::abort();
}

ClientHelloReader read(std::span<const std::byte> bytes, std::size_t step) {
  ClientHelloReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    const auto before = reader.state();
    const auto after = reader.feed(bytes.subspan(at, std::min(step, bytes.size() - at)));
    require(before == ClientHelloReader::State::more || before == after);
  }
  return reader;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  const ClientHelloReader whole = read(bytes, size + 1);
  require(size <= ClientHelloReader::max_bytes || whole.state() != ClientHelloReader::State::more);
  for (const std::size_t step : {std::size_t{1}, std::size_t{5}}) {
    const ClientHelloReader pieces = read(bytes, step);
    require(pieces.state() == whole.state());
    if (whole.state() != ClientHelloReader::State::complete) continue;
    require(pieces.server_name() == whole.server_name());
    require(pieces.alpn() == whole.alpn());
    require(pieces.ech() == whole.ech());
  }
  return 0;
}

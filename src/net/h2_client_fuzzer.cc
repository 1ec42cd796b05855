// A server's (a guest's) bytes into a client session that has a ping, a call and two tunnels open. Each of
// them must come back, whatever the bytes say.
#include "net/h2_fuzz_peer.h"

namespace {

using namespace space;

Deadline soon() {
  return Deadline::after(std::chrono::seconds(60));
}

Task<void> call(std::shared_ptr<H2Session> session, int& returned) {
  const auto answer = co_await session->call({.path = "/control/stats", .body = "{}"}, soon());
  if (answer && answer->body.size() > h2_test::fuzz_limits().call_body_bytes_max) std::abort();
  ++returned;
}
Task<void> ping(std::shared_ptr<H2Session> session, int& returned) {
  (void)co_await session->ping(soon());
  ++returned;
}
Task<void> tunnel(std::shared_ptr<H2Session> session, int& returned) {
  auto stream = co_await session->connect("localhost:49983", soon());
  if (stream && co_await (*stream)->write(as_bytes("GET / HTTP/1.1\r\n\r\n"))) {
    std::array<std::byte, 100> buffer;
    while ((co_await (*stream)->read(buffer)).value_or(0) > 0) {
    }
    (void)co_await (*stream)->finish();
  }
  ++returned;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || size > 65536) return 0;
  boost::asio::io_context io{1};
  auto [mine, theirs] = make_stream_pair(io.get_executor(), 128 * 1024);
  const auto session = H2Session::client(std::move(mine), h2_test::fuzz_limits());
  int returned = 0;
  spawn(io.get_executor(), "call", call(session, returned));
  spawn(io.get_executor(), "ping", ping(session, returned));
  spawn(io.get_executor(), "tunnel", tunnel(session, returned));
  spawn(io.get_executor(), "tunnel", tunnel(session, returned));
  std::string bytes;
  if ((data[0] & 1) == 0) bytes = h2_test::frame(h2_test::settings, 0, 0, "");
  bytes.append(as_text(std::as_bytes(std::span(data, size)).subspan(1)));
  h2_test::exchange_with(io, session, std::move(theirs), std::move(bytes));
  if (returned != 4) std::abort();
  return 0;
}

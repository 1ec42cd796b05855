// A client's bytes into a server session: calls are answered, tunnels and HTTP requests echo. No crash,
// nothing left open, every handler runs to its end, and no request that could not be one of HTTP/1.1.
#include "net/h2_fuzz_peer.h"
#include "net/http_text.h"

namespace {

using namespace space;

Task<void> echo(StreamPtr stream) {
  std::array<std::byte, 1000> buffer;
  while (true) {
    const auto count = co_await stream->read(buffer);
    if (!count || *count == 0) break;
    if (!co_await stream->write(std::span(buffer).first(*count))) break;
  }
  (void)co_await stream->finish();
}
Task<CallResponse> serve(CallRequest request) {
  co_return CallResponse{200, request.path + request.body};
}
Task<Result<H2Handlers::Tunnel>> decide(std::string authority) {
  if (authority.size() % 2 == 1) co_return fail(Code::not_found, "nobody listens on {}", authority);
  co_return echo;
}

Task<void> answer(http::ServerExchange& exchange, http::RequestHead head) {
  std::string text;
  if (!http::append_request_head(text, head) || head.wants_upgrade()) std::abort();
  (void)co_await exchange.start_response({.status = 200, .fields = {}}, as_bytes(text));
  std::array<std::byte, 1000> buffer;
  while (true) {
    const auto count = co_await exchange.body().read(buffer);
    if (!count) co_return exchange.abort();
    if (*count == 0) break;
    if (!co_await exchange.write_body(std::span(buffer).first(*count))) co_return;
  }
  (void)co_await exchange.end_response();
}
Task<void> refuse(http::ServerExchange& exchange, Error why) {
  (void)co_await exchange.respond({.status = 400, .fields = {}}, why.message);
}

}  // namespace

// The first byte decides whether the rest comes after a proper greeting, and what kind of server it is.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1 || size > 65536) return 0;
  boost::asio::io_context io{1};
  auto [mine, theirs] = make_stream_pair(io.get_executor(), 128 * 1024);
  const auto session =
      (data[0] & 2) == 0
          ? H2Session::server(std::move(mine), {.call = serve, .connect = decide}, h2_test::fuzz_limits())
          : H2Session::http_server(std::move(mine), {.request = answer, .malformed = refuse}, Millis(1'000),
                                   h2_test::fuzz_limits());
  std::string bytes;
  if ((data[0] & 1) == 0) bytes = std::string(h2_test::preface) + h2_test::frame(h2_test::settings, 0, 0, "");
  bytes.append(as_text(std::as_bytes(std::span(data, size)).subspan(1)));
  h2_test::exchange_with(io, session, std::move(theirs), std::move(bytes));
  return 0;
}

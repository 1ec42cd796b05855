// A whole client connection against a hostile server: it ends with an answer or an error, within its limits.
#include <boost/asio/io_context.hpp>
#include <cstdlib>

#include "base/bytes.h"
#include "net/http.h"

namespace {

using namespace space;

// Sends `bytes` in pieces of `step`, then the end.
class Script final : public Stream {
 public:
  Script(std::string_view bytes, std::size_t step) : bytes_(bytes), step_(step) {}
  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    const std::size_t n = std::min({into.size(), step_, bytes_.size()});
    std::ranges::copy(as_bytes(bytes_.substr(0, n)), into.begin());
    bytes_.remove_prefix(n);
    co_return n;
  }
  Task<Result<void>> write(std::span<const std::byte>) override { co_return Result<void>{}; }
  Task<Result<void>> finish() override { co_return Result<void>{}; }
  void reset() noexcept override {}

 private:
  std::string_view bytes_;
  std::size_t step_;
};

Task<void> exchange(std::string_view bytes, std::size_t step, std::string* outcome) {
  http::ClientConnection client(std::make_unique<Script>(bytes, step));
  for (int i = 0; i < 4; ++i) {
    if (!co_await client.write_request({.method = i == 1 ? "HEAD" : "GET", .target = "/"})) std::abort();
    if (!co_await client.end_request()) std::abort();
    const auto response = co_await client.read_response(Deadline::after(std::chrono::hours(1)));
    if (!response) co_return;
    const auto body = co_await http::read_all(client.body(), 1'000'000);
    if (!body) co_return;
    *outcome += std::to_string(response->head.status) + *body;
    if (!response->keep_alive) co_return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  boost::asio::io_context loop(1);
  std::string whole;
  std::string pieces;
  spawn(loop.get_executor(), "whole", exchange(bytes, size + 1, &whole));
  spawn(loop.get_executor(), "pieces", exchange(bytes, 5, &pieces));
  loop.run();
  if (whole != pieces) std::abort();
  return 0;
}

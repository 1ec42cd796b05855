// ConnectStream: one streaming call of the guest daemon, message by message.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/api_client.h"
#include "net/connect.h"

namespace space::cli {

class ConnectStream {
 public:
  // `fields` go with the request. A refusal of the edge or the daemon is an error here or at the first
  // `next`.
  static Task<Result<std::unique_ptr<ConnectStream>>> open(const ApiClient& api, const Target& target,
                                                           std::string procedure, JsonObject request,
                                                           http::Fields fields = {});
  // The next message, JSON. Nothing: the stream ended in order. Code::unavailable: it broke, or nothing came
  // for `silence`.
  Task<Result<std::optional<std::string>>> next(Millis silence);
  // A `next` under way fails.
  void abort() noexcept { connection_->abort(); }

 private:
  explicit ConnectStream(std::unique_ptr<http::ClientConnection> connection)
      : connection_(std::move(connection)), buffer_(std::make_unique<std::byte[]>(buffer_bytes)) {}

  static constexpr std::size_t buffer_bytes = 65536;
  std::unique_ptr<http::ClientConnection> connection_;
  connect::EnvelopeReader reader_;
  std::unique_ptr<std::byte[]> buffer_;
};

}  // namespace space::cli

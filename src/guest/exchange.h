// Exchange: one HTTP request at the daemon's port and the answers all its handlers share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "guest/launch.h"
#include "net/connect.h"
#include "net/http.h"

namespace space::guest {

// Lives in the connection's loop for as long as any handler it is passed to. A failed write is not reported:
// the connection is broken then, and the next read of a request says so.
struct Exchange {
  http::ServerExchange& connection;
  const http::RequestHead& head;

  http::ResponseHead answer(int status, std::string_view content_type) const;  // with the CORS fields
  Task<void> respond(int status, std::string_view content_type, std::string body);
  Task<void> respond_error(int status, std::string message);  // {"code":status,"message":…}

  // Unary calls of the Connect protocol.
  Task<RpcResult<JsonObject>> read_message();
  Task<void> respond_rpc(RpcResult<std::string> result);
  // Calls with a stream of answers: the one message of the request; errors are an answer of 200 with an error
  // at its end.
  Task<RpcResult<JsonObject>> read_single_envelope();
  Task<void> respond_stream_error(connect::RpcError error);
};

connect::RpcError to_rpc(const Error& error);

// User of `Authorization: Basic base64("user:")`; nullopt without the field, an error if it is malformed.
Result<std::optional<std::string>> basic_user(const http::RequestHead& head);
// Milliseconds of `Connect-Timeout-Ms`; nullopt if absent or 0.
Result<std::optional<Millis>> timeout_of(const http::RequestHead& head);
// `Keepalive-Ping-Interval` in seconds; 90 s if absent or unusable.
Millis keepalive_of(const http::RequestHead& head);

}  // namespace space::guest

// H2Session: one HTTP/2 session (nghttp2) over a Stream, client or server. The same code carries the private
// channel (sandboxd is the client, the guest daemon the server) and the node session (the node dials, then
// serves; space-control is the client): small unary calls and CONNECT tunnels. A server of the public kind
// (http_server) answers any client's HTTP requests, one http::ServerExchange each.
//
// Flow control: a tunnel's receive window is given back only as its reader takes bytes, so a slow consumer
// slows its producer and nobody else. Limits hold against a hostile peer whichever side it is: input held for
// readers is at most streams_max x tunnel_window_bytes, and a peer that does not read what we send is not
// read from either.
//
// A session and its tunnels may be destroyed in any order. Belongs to the loop it runs on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/http.h"

namespace space {

struct H2Limits {
  std::uint32_t streams_max = 256;  // concurrently open; a client's further calls wait for their turn
  std::uint32_t tunnel_window_bytes = 256 * 1024;
  std::uint32_t session_window_bytes = 8 * 1024 * 1024;  // in flight on the whole session
  // Gives the session's window back only as readers take bytes, too: it is then all that a peer can make us
  // hold, and streams of its own that nobody reads can hold up its others.
  bool session_window_waits = false;
  std::size_t call_body_bytes_max = 1024 * 1024;  // request and response bodies of unary calls
  std::size_t header_bytes_max = 16 * 1024;
  // RST_STREAM and frames without content; more ends the session ("rapid reset"). A session that carries many
  // clients' tunnels raises it.
  std::uint32_t resets_per_second_max = 2000;
};

struct CallRequest {
  std::string method = "POST";
  std::string path;  // "/control/stats"
  std::string body;  // JSON
};
struct CallResponse {
  int status = 200;
  std::string body;
};

// Of a session between space-control and space-sandboxd: one carries every client's tunnels to every sandbox
// of the node, opened and reset as clients come and go. The other end is a part of the platform.
inline constexpr std::uint32_t node_session_resets_per_second_max = 1'000'000;

// What a server does with the peer's streams. Handlers run on the loop; one coroutine per stream.
struct H2Handlers {
  std::function<Task<CallResponse>(CallRequest)> call;
  // Decides before accepting: an error answers its HTTP status (not_found 404, unavailable 502, …) with the
  // message as body and no tunnel. On success the returned function runs the tunnel with its stream.
  using Tunnel = std::function<Task<void>(StreamPtr)>;
  std::function<Task<Result<Tunnel>>(std::string authority)> connect;
};

// A tunnel the peer may still refuse.
struct OpeningTunnel {
  StreamPtr stream;
  // Waits for the peer's decision; a refusal carries its status as Code and its message. Reading the stream
  // waits for it too, and fails without the message.
  std::function<Task<Result<void>>(Deadline)> accepted;
};

class H2Session : public std::enable_shared_from_this<H2Session> {
 public:
  static std::shared_ptr<H2Session> client(StreamPtr transport, H2Limits limits = {});
  static std::shared_ptr<H2Session> server(StreamPtr transport, H2Handlers handlers, H2Limits limits = {});
  // Every request goes to `handlers`, each in a coroutine of its own. A session without any for `idle` ends.
  static std::shared_ptr<H2Session> http_server(StreamPtr transport, http::ServerHandlers handlers,
                                                Millis idle, H2Limits limits = {});
  virtual ~H2Session() = default;

  // Drives the session until the transport ends, the peer misbehaves or close(); then resets every stream.
  // The error says why; a clean end of the transport is Code::unavailable.
  virtual Task<Error> run() = 0;
  virtual void close(std::string reason) noexcept = 0;
  virtual bool closed() const = 0;
  // Server. Takes no more streams and tells the peer so; ends in order when those that are open have ended.
  virtual void retire() noexcept = 0;

  // Client. Fails with unavailable when the session closes before the answer.
  virtual Task<Result<CallResponse>> call(CallRequest request, Deadline deadline) = 0;
  // Client. Asks for a tunnel and does not wait for the answer, which saves its round trip: what is written
  // to the stream follows the request at once, and is lost if the peer refuses.
  virtual Task<Result<OpeningTunnel>> open_tunnel(std::string authority, Deadline deadline) = 0;
  // Client. The tunnel is open when this returns.
  Task<Result<StreamPtr>> connect(std::string authority, Deadline deadline);
  // Sends nothing more until release(): what is written meanwhile waits. True once the peer has read all that
  // was sent before: between the two stands nothing that is on its way there, half a frame least of all.
  // False: it did not say so in time, or the session is closed.
  virtual Task<bool> hold(Deadline deadline) = 0;
  virtual void release() noexcept = 0;
  // PING round trip, the floor of every figure.
  virtual Task<Result<std::chrono::nanoseconds>> ping(Deadline deadline) = 0;
  virtual std::size_t open_streams() const = 0;
};

// How an Error crosses an HTTP boundary, and back. Unknown statuses are internal.
int http_status_of(Code code);
Code code_of_http_status(int status);

}  // namespace space

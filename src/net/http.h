// HTTP/1.1 over any Stream: a server side and a client side with streaming bodies, for the API edge, the
// guest daemon's port and the CLI. Parsing is Boost.Beast's (only in http_parser.cc); framing and limits are
// checked here. A request or response with both Content-Length and Transfer-Encoding, or a folded header, is
// refused.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/stream.h"

namespace space::http {

inline constexpr std::size_t head_limit_bytes = 64 * 1024;

// Field names compare without case; order is kept.
class Fields {
 public:
  void add(std::string_view name, std::string_view value);
  void set(std::string_view name, std::string_view value);  // replaces all of that name
  void remove(std::string_view name);
  std::optional<std::string_view> get(std::string_view name) const;  // the first
  std::size_t count(std::string_view name) const;
  bool has_token(std::string_view name, std::string_view token) const;  // comma list, no case
  const std::vector<std::pair<std::string, std::string>>& all() const { return fields_; }

 private:
  std::vector<std::pair<std::string, std::string>> fields_;
};

struct RequestHead {
  std::string method;
  std::string target;  // as sent, origin form: "/files?path=a%20b"
  Fields fields;
  bool keep_alive = true;
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool has_body() const { return chunked || content_length.value_or(0) > 0; }
  bool wants_upgrade() const { return fields.has_token("Connection", "upgrade"); }
  std::string_view path() const;   // target up to '?'
  std::string_view query() const;  // after '?', may be empty
};

struct ResponseHead {
  int status = 200;
  Fields fields;
  // Framing of the body that follows: a known length, else chunked. 1xx, 204 and 304 have none.
  std::optional<std::uint64_t> content_length;
};

// The body of the message whose head was read last.
class Body {
 public:
  virtual ~Body() = default;
  virtual Task<Result<std::size_t>> read(std::span<std::byte> into) = 0;  // 0 at the end; decoded from chunks
  virtual bool done() const = 0;                                          // all of it was read
  virtual bool at_hand() const = 0;                                       // some of it has arrived
};

// Whole body, at most `limit_bytes` (more: Code::exhausted).
Task<Result<std::string>> read_all(Body& body, std::size_t limit_bytes);

// One request of a client, seen by the handler that answers it, and the answer; whatever protocol carries
// them.
class ServerExchange {
 public:
  virtual ~ServerExchange() = default;

  virtual Body& body() = 0;  // of the request; `Expect: 100-continue` is answered on its first read

  virtual Task<Result<void>> respond(ResponseHead head, std::string_view body) = 0;  // whole, with its length
  // Sent at once, in one write with `first` of the body; then write_body*, end_response.
  virtual Task<Result<void>> start_response(ResponseHead head, std::span<const std::byte> first = {}) = 0;
  virtual Task<Result<void>> write_body(std::span<const std::byte> bytes) = 0;  // flushed at once
  virtual Task<Result<void>> end_response(std::span<const std::byte> last = {}) = 0;
  // The client sees a broken answer, never a clean end: for a response that stops half-way.
  virtual void abort() noexcept = 0;
  // Completes when the client closes or resets while no request body is being read (for cancelling long
  // answers).
  virtual Task<void> peer_gone() = 0;
  // After an upgrade was answered (101): the raw stream; bytes already read come first. Ends this object's
  // use.
  virtual StreamPtr release() = 0;
  // The client is on this machine (Stream::peer_is_loopback).
  virtual bool peer_is_loopback() const = 0;
};

// What a server does with requests. Each exchange lives until the coroutine for it ends; an answer that is
// incomplete then is broken off.
struct ServerHandlers {
  std::function<Task<void>(ServerExchange&, RequestHead)> request;
  // A head that is malformed (Code::invalid_argument) or too large (Code::exhausted): answers 400 or 431.
  std::function<Task<void>(ServerExchange&, Error)> malformed;
};

// One HTTP/1.1 connection of a server, and the exchange of the request read last. Loop: read_request, answer,
// until it returns nullopt.
class ServerConnection final : public ServerExchange {
 public:
  explicit ServerConnection(StreamPtr stream);
  // Closes in order (waits a little for the client to end first, on the loop); with a response under way,
  // resets.
  ~ServerConnection() override;

  // nullopt: the peer closed between requests. Malformed: Code::invalid_argument (answer 400, then close); a
  // head beyond head_limit_bytes: Code::exhausted (431); `idle` passed before the head was there:
  // Code::deadline.
  Task<Result<std::optional<RequestHead>>> read_request(Deadline idle);
  // What was read last is no request but HTTP/2's greeting; it comes first from the stream to release().
  bool speaks_http2() const;
  // The unread rest of the request body is dropped up to 1 MiB to keep the connection; beyond, it is closed.
  Task<Result<void>> drain_request();

  Body& body() override;
  Task<Result<void>> respond(ResponseHead head, std::string_view body) override;
  Task<Result<void>> start_response(ResponseHead head, std::span<const std::byte> first = {}) override;
  Task<Result<void>> write_body(std::span<const std::byte> bytes) override;
  Task<Result<void>> end_response(std::span<const std::byte> last = {}) override;
  void abort() noexcept override;
  Task<void> peer_gone() override;
  StreamPtr release() override;
  bool peer_is_loopback() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One connection of a client; requests one after the other.
class ClientConnection {
 public:
  explicit ClientConnection(StreamPtr stream);
  ~ClientConnection();
  struct Response {
    ResponseHead head;  // content_length as received; without one the body ends by chunks or by close
    bool keep_alive = false;
    bool chunked = false;
  };
  // Body framing from content_length and chunked, not from the fields of those names. A head that announces
  // a content length leaves with the first write_body (which may be empty).
  Task<Result<void>> write_request(const RequestHead& head);
  Task<Result<void>> write_body(std::span<const std::byte> bytes);  // chunk-encodes when head.chunked
  Task<Result<void>> end_request();
  // 1xx except 101 are skipped.
  Task<Result<Response>> read_response(Deadline deadline);
  Body& body();
  StreamPtr release();  // after 101
  void abort() noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// URL pieces, pure.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);
std::string percent_encode(std::string_view text);  // all but unreserved characters
std::vector<std::pair<std::string, std::string>> parse_query(
    std::string_view query);  // undecodable pairs dropped
std::optional<std::string> query_value(std::string_view query, std::string_view name);
std::string_view reason_phrase(int status);

}  // namespace space::http

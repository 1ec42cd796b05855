// H2Engine: nghttp2 over a Stream. Frames, windows, limits and the two loops (one reads, one writes); what
// streams mean is the business of the client and the server built on it (h2_session.cc,
// h2_http.cc). Private to h2_*.
#pragma once

#include <nghttp2/nghttp2.h>

#include <optional>
#include <unordered_map>
#include <utility>

#include "net/h2_exchange.h"
#include "net/h2_session.h"

namespace space {

class H2Engine : public H2Session {
 public:
  enum class Role : unsigned char { client, server };
  using Headers = std::vector<std::pair<std::string_view, std::string_view>>;

  H2Engine(Role role, StreamPtr transport, H2Limits limits);
  ~H2Engine() override;
  H2Engine(const H2Engine&) = delete;
  H2Engine& operator=(const H2Engine&) = delete;

  Task<Error> run() final;
  void close(std::string reason) noexcept final;
  bool closed() const final { return end_.has_value(); }
  void retire() noexcept final;
  Task<Result<std::chrono::nanoseconds>> ping(Deadline deadline) final;
  Task<bool> hold(Deadline deadline) final;
  void release() noexcept final;
  std::size_t open_streams() const final { return exchanges_.size(); }

  bool peer_is_loopback() const { return transport_->peer_is_loopback(); }

  // For the users of exchanges. All are harmless on a closed stream or session.
  void consumed(const Exchange& exchange, std::size_t bytes);  // gives the stream's window back
  void output_ready(Exchange& exchange);                       // more pending, or ended
  // RST_STREAM, both sides fail.
  void reset(Exchange& exchange, std::uint32_t code = NGHTTP2_CANCEL) noexcept;
  // A head of `headers`; unless it is interim, what is or will be pending follows as its body.
  enum class Head : unsigned char { interim, final, final_without_body };
  void send_head(Exchange& exchange, const Headers& headers, Head kind);
  void abandon(Exchange& exchange) noexcept;  // the user is gone; what it finished is still sent

 protected:
  const H2Limits& limits() const { return limits_; }
  const Error& end() const { return *end_; }
  const Executor& executor() const { return executor_; }                                 // once running
  Result<ExchangePtr> open(const Headers& headers, std::string_view body, bool tunnel);  // sends the request
  void respond(Exchange& exchange, int status, std::string_view body, bool ended);
  // The head of a tunnel's answer. It leaves with the next bytes of the session, soon at the latest.
  void accept_later(Exchange& exchange);
  // Notified when a stream has closed, and at the session's end.
  Signal& stream_closed() { return slot_freed_; }
  // Waits until another stream may be opened.
  Task<Result<void>> wait_for_slot(Deadline deadline);

  virtual void on_start() {}
  // The first of a request's head arrives: the place to say how it is kept.
  virtual void on_request_begin(Exchange& exchange) { exchange.input_max = limits_.call_body_bytes_max; }
  // A request is complete (one that is streamed: its head). Called on the loop outside nghttp2.
  virtual void on_request(ExchangePtr exchange) = 0;

 private:
  struct Ping {
    Signal answered;
    bool done = false;
  };
  struct SessionDelete {
    void operator()(nghttp2_session* session) const { nghttp2_session_del(session); }
  };

  // nghttp2's callbacks; 0 or an NGHTTP2_ERR_ code.
  struct Callbacks;
  int on_frame_begin(const nghttp2_frame_hd& head);
  int on_headers_begin(const nghttp2_frame& frame);
  int on_header(const nghttp2_frame& frame, std::string_view name, std::string_view value);
  int on_data(std::int32_t id, std::span<const std::byte> bytes);
  int on_frame(const nghttp2_frame& frame);
  void on_goaway(const nghttp2_goaway& frame);
  void on_ping_ack(const nghttp2_ping& frame);
  void on_frame_sent(const nghttp2_frame& frame);
  void on_stream_closed(std::int32_t id, std::uint32_t error_code);
  ssize_t on_output_wanted(std::int32_t id, std::span<std::byte> into, std::uint32_t& flags);

  static Task<void> write_loop(std::shared_ptr<H2Engine> self);
  Task<Error> read_loop();
  Task<Result<void>> read_out();
  void feed(std::span<const std::byte> bytes);
  bool over_in_order() const;
  Task<void> finish_in_order();
  void drop_input(Exchange& exchange);
  bool output_clogged() const;
  // Held, nothing follows the PING that tells how far the peer has read.
  bool may_send() const { return !held_ || last_ping_ > pings_gone_; }
  void wake_writer();
  void submit_head(Exchange& exchange, const Headers& headers, Head kind);
  void submit_response(Exchange& exchange, int status, std::string_view body, bool ended);
  static Task<void> flush_soon(std::weak_ptr<H2Engine> engine);
  void shut_down(Error why) noexcept;
  ExchangePtr find(std::int32_t id) const;
  ExchangePtr add(std::int32_t id);

  Role role_;
  StreamPtr transport_;
  H2Limits limits_;
  Executor executor_;
  std::unique_ptr<nghttp2_session, SessionDelete> session_;
  std::unordered_map<std::int32_t, ExchangePtr> exchanges_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Ping>> pings_;
  std::uint64_t pings_sent_ = 0;
  std::uint64_t pings_gone_ = 0;  // the number of the newest that was sent
  std::uint64_t last_ping_ = 0;   // of the one that nothing follows while held
  bool held_ = false;
  std::vector<ExchangePtr> requests_;  // complete, found while nghttp2 was parsing
  Bytes output_;                       // the write under way
  bool flush_planned_ = false;
  Signal writer_wanted_;
  Signal written_;
  Signal slot_freed_;
  std::optional<Error> fault_;  // what the peer did wrong, found inside nghttp2
  std::optional<Error> end_;
  Monotonic second_started_{};
  std::uint32_t resets_this_second_ = 0;
};

}  // namespace space

#include "net/h2_engine.h"

#include <algorithm>
#include <array>

#include "net/h2_ping.h"

namespace space {
namespace {

constexpr std::size_t batch_bytes = 64 * 1024;
constexpr std::size_t input_bytes = 64 * 1024;
constexpr std::size_t reason_bytes_max = 256;
constexpr Millis goodbye_time{200};
constexpr Millis linger_time{2000};    // for the peer to close after an orderly end
constexpr Millis held_back_time{500};  // an answer that nobody waits for

std::string_view text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}
std::uint8_t* mutable_bytes(std::string_view value) {
  return reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data()));  // nghttp2 only reads
}

std::vector<nghttp2_nv> to_nv(const H2Engine::Headers& headers) {
  std::vector<nghttp2_nv> out;
  out.reserve(headers.size());
  for (const auto& [name, value] : headers)
    out.push_back(
        {mutable_bytes(name), mutable_bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
  return out;
}

std::string goaway_reason(const nghttp2_goaway& goaway) {
  const auto words = text(goaway.opaque_data, std::min(goaway.opaque_data_len, reason_bytes_max));
  return fmt::format("{}{}{}", nghttp2_http2_strerror(goaway.error_code), words.empty() ? "" : ": ", words);
}

Error broken(std::string_view how) {
  return {Code::internal, fmt::format("the peer broke HTTP/2: {}", how)};
}

}  // namespace

struct H2Engine::Callbacks {
  static H2Engine& engine(void* user) { return *static_cast<H2Engine*>(user); }

  static ssize_t read_output(nghttp2_session*, std::int32_t id, std::uint8_t* buffer, std::size_t size,
                             std::uint32_t* flags, nghttp2_data_source*, void* user) {
    return engine(user).on_output_wanted(id, std::as_writable_bytes(std::span(buffer, size)), *flags);
  }

  static nghttp2_session_callbacks* make() {
    nghttp2_session_callbacks* table = nullptr;
    nghttp2_session_callbacks_new(&table);
    nghttp2_session_callbacks_set_on_begin_frame_callback(
        table, [](nghttp2_session*, const nghttp2_frame_hd* head, void* user) {
          return engine(user).on_frame_begin(*head);
        });
    nghttp2_session_callbacks_set_on_begin_headers_callback(
        table, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
          return engine(user).on_headers_begin(*frame);
        });
    nghttp2_session_callbacks_set_on_header_callback(
        table,
        [](nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
           const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* user) {
          return engine(user).on_header(*frame, text(name, name_size), text(value, value_size));
        });
    // A field that breaks the grammar fails its stream; nghttp2's own way is to drop the field.
    nghttp2_session_callbacks_set_on_invalid_header_callback(
        table,
        [](nghttp2_session*, const nghttp2_frame*, const std::uint8_t*, std::size_t, const std::uint8_t*,
           std::size_t, std::uint8_t, void*) -> int { return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        table, [](nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data, std::size_t size,
                  void* user) { return engine(user).on_data(id, std::as_bytes(std::span(data, size))); });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        table, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
          return engine(user).on_frame(*frame);
        });
    nghttp2_session_callbacks_set_on_frame_send_callback(
        table, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
          engine(user).on_frame_sent(*frame);
          return 0;
        });
    nghttp2_session_callbacks_set_on_stream_close_callback(
        table, [](nghttp2_session*, std::int32_t id, std::uint32_t code, void* user) {
          engine(user).on_stream_closed(id, code);
          return 0;
        });
    return table;
  }

  static nghttp2_option* options(const H2Limits& limits) {
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    // Ours (on_frame_begin) counts more kinds of frames; nghttp2's default rate would end busy honest
    // sessions.
    nghttp2_option_set_stream_reset_rate_limit(option, limits.resets_per_second_max,
                                               limits.resets_per_second_max);
    return option;
  }
};

H2Engine::H2Engine(Role role, StreamPtr transport, H2Limits limits)
    : role_(role), transport_(std::move(transport)), limits_(limits) {
  nghttp2_session_callbacks* callbacks = Callbacks::make();
  nghttp2_option* options = Callbacks::options(limits_);
  nghttp2_session* session = nullptr;
  const auto make = role == Role::client ? nghttp2_session_client_new2 : nghttp2_session_server_new2;
  make(&session, callbacks, this, options);
  session_.reset(session);
  nghttp2_option_del(options);
  nghttp2_session_callbacks_del(callbacks);

  const std::array settings{
      nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
                             role == Role::server ? limits_.streams_max : 0},
      nghttp2_settings_entry{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, limits_.tunnel_window_bytes},
      nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE,
                             static_cast<std::uint32_t>(limits_.header_bytes_max)},
      nghttp2_settings_entry{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
  };
  nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                        static_cast<std::int32_t>(limits_.session_window_bytes));
}

H2Engine::~H2Engine() {
  shut_down({Code::unavailable, "the session was dropped"});
}

// ---- The two loops

Task<Error> H2Engine::run() {
  auto self = std::static_pointer_cast<H2Engine>(shared_from_this());
  // Whatever ends this coroutine ends the session.
  struct AtExit {
    H2Engine& engine;
    ~AtExit() { engine.shut_down({Code::unavailable, "the session was cancelled"}); }
  } at_exit{*self};
  executor_ = co_await boost::asio::this_coro::executor;
  if (!closed()) {
    spawn(executor_, "h2 writer", write_loop(self));
    on_start();
    Error why = co_await read_loop();
    shut_down(std::move(why));
  }
  co_return end();
}

Task<Error> H2Engine::read_loop() {
  Bytes buffer(input_bytes);
  while (!closed()) {
    if (output_clogged()) {  // a peer that does not read is not read either
      co_await written_.wait(no_deadline());
      continue;
    }
    auto count = co_await transport_->read(buffer);
    if (!count) co_return count.error();
    if (*count == 0) co_return Error{Code::unavailable, "the peer closed the connection"};
    if (closed()) break;
    feed(std::span(buffer).first(*count));
    wake_writer();
    for (auto& request : std::exchange(requests_, {})) on_request(std::move(request));
    if (over_in_order()) writer_wanted_.notify();
    if (fault_) {
      (void)co_await with_deadline(read_out(), Deadline::after(goodbye_time), "a goodbye");
      co_return *fault_;
    }
  }
  co_return end();
}

// The peer is being told why (GOAWAY); a reset, or bytes of its own left unread, could take that away from
// it.
Task<Result<void>> H2Engine::read_out() {
  Bytes buffer(input_bytes);
  while (true) {
    SPACE_CO_TRY(const std::size_t count, co_await transport_->read(buffer));
    if (count == 0) co_return Result<void>();
  }
}

void H2Engine::feed(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const ssize_t used = nghttp2_session_mem_recv(session_.get(), data, bytes.size());
  if (used < 0 && !fault_) fault_ = broken(nghttp2_strerror(static_cast<int>(used)));
  if (!fault_) return;
  const auto code = fault_->code == Code::exhausted ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR;
  nghttp2_session_terminate_session(session_.get(), code);
}

// Room for all an honest peer can cause: a handful of frames a stream, and acknowledgements.
bool H2Engine::output_clogged() const {
  return nghttp2_session_get_outbound_queue_size(session_.get()) >
         4 * std::size_t{limits_.streams_max} + 1000;
}

Task<void> H2Engine::write_loop(std::shared_ptr<H2Engine> self) {
  auto& engine = *self;
  while (!engine.closed()) {
    engine.output_.clear();
    while (engine.output_.size() < batch_bytes && engine.may_send()) {
      const std::uint8_t* data = nullptr;
      const ssize_t count = nghttp2_session_mem_send(engine.session_.get(), &data);
      if (count < 0) engine.shut_down({Code::internal, nghttp2_strerror(static_cast<int>(count))});
      if (count <= 0) break;
      const std::span frame(data, static_cast<std::size_t>(count));
      if (const auto ping = ping_in(frame)) engine.pings_gone_ = *ping;
      const auto bytes = std::as_bytes(frame);
      engine.output_.insert(engine.output_.end(), bytes.begin(), bytes.end());
    }
    if (engine.closed()) break;
    if (engine.output_.empty()) {
      if (engine.over_in_order()) {
        co_await engine.finish_in_order();
      } else {
        co_await engine.writer_wanted_.wait(no_deadline());
      }
      continue;
    }
    auto written = co_await engine.transport_->write(engine.output_);
    if (!written) engine.shut_down(std::move(written).error());
    if (engine.fault_ && nghttp2_session_want_read(engine.session_.get()) == 0) {
      if (co_await engine.transport_->finish())
        co_await engine.writer_wanted_.wait(Deadline::after(goodbye_time));
      engine.shut_down(*engine.fault_);
    }
    engine.written_.notify();
  }
}

bool H2Engine::over_in_order() const {
  return !fault_ && nghttp2_session_want_read(session_.get()) == 0 &&
         nghttp2_session_want_write(session_.get()) == 0;
}

// The last frames must reach the peer: a reset would throw away what it has not read. It closes when it has.
Task<void> H2Engine::finish_in_order() {
  const Deadline deadline = Deadline::after(linger_time);
  const bool finished = (co_await transport_->finish()).has_value();
  while (finished && !closed() && !deadline.passed()) co_await writer_wanted_.wait(deadline);
  shut_down({Code::unavailable, "the session ended"});
}

void H2Engine::wake_writer() {
  if (writer_wanted_.awaited() && may_send() && nghttp2_session_want_write(session_.get()) != 0)
    writer_wanted_.notify();
}

void H2Engine::close(std::string reason) noexcept {
  shut_down({Code::unavailable, std::move(reason)});
}

void H2Engine::retire() noexcept {
  if (closed()) return;
  nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_.get()), NGHTTP2_NO_ERROR, nullptr,
                        0);
  wake_writer();
}

void H2Engine::shut_down(Error why) noexcept {
  if (end_) return;
  end_ = std::move(why);
  const Error gone{Code::unavailable, end_->message};
  for (auto& [id, exchange] : std::exchange(exchanges_, {})) {
    exchange->closed = true;
    exchange->cut(gone);
  }
  for (auto& [id, ping] : std::exchange(pings_, {})) ping->answered.notify();
  requests_.clear();
  writer_wanted_.notify();
  written_.notify();
  slot_freed_.notify();
  transport_->reset();
}

// ---- Opening and answering streams

ExchangePtr H2Engine::find(std::int32_t id) const {
  const auto found = exchanges_.find(id);
  return found == exchanges_.end() ? nullptr : found->second;
}

ExchangePtr H2Engine::add(std::int32_t id) {
  auto exchange = std::make_shared<Exchange>();
  exchange->id = id;
  exchange->engine = std::static_pointer_cast<H2Engine>(shared_from_this());
  exchanges_.emplace(id, exchange);
  return exchange;
}

Result<ExchangePtr> H2Engine::open(const Headers& headers, std::string_view body, bool tunnel) {
  const nghttp2_data_provider provider{.source = {}, .read_callback = Callbacks::read_output};
  const auto nv = to_nv(headers);
  const auto id = nghttp2_submit_request(session_.get(), nullptr, nv.data(), nv.size(), &provider, nullptr);
  if (id < 0) {  // out of stream numbers
    shut_down({Code::unavailable, nghttp2_strerror(id)});
    return std::unexpected(end());
  }
  auto exchange = add(id);
  exchange->streamed = tunnel;
  exchange->pending.append(as_bytes(body));
  if (!tunnel) {
    exchange->out = Exchange::Side::ended;
    exchange->input_max = limits_.call_body_bytes_max;
  }
  wake_writer();
  return exchange;
}

void H2Engine::respond(Exchange& exchange, int status, std::string_view body, bool ended) {
  submit_response(exchange, status, body, ended);
  wake_writer();
}

void H2Engine::accept_later(Exchange& exchange) {
  submit_response(exchange, 200, {}, false);
  if (closed() || std::exchange(flush_planned_, true)) return;
  spawn(executor_, "h2 flush", flush_soon(std::static_pointer_cast<H2Engine>(shared_from_this())));
}

Task<void> H2Engine::flush_soon(std::weak_ptr<H2Engine> engine) {
  co_await sleep_for(held_back_time);
  const auto self = engine.lock();
  if (!self || self->closed()) co_return;
  self->flush_planned_ = false;
  self->wake_writer();
}

void H2Engine::submit_response(Exchange& exchange, int status, std::string_view body, bool ended) {
  if (closed() || exchange.closed || exchange.out != Exchange::Side::open) return;
  exchange.pending.append(as_bytes(body));
  if (ended) exchange.out = Exchange::Side::ended;
  submit_head(exchange, {{":status", std::to_string(status)}}, Head::final);
}

void H2Engine::send_head(Exchange& exchange, const Headers& headers, Head kind) {
  if (closed() || exchange.closed || exchange.out == Exchange::Side::failed) return;
  submit_head(exchange, headers, kind);
  wake_writer();
}

void H2Engine::submit_head(Exchange& exchange, const Headers& headers, Head kind) {
  const auto nv = to_nv(headers);
  if (kind == Head::interim) {
    nghttp2_submit_headers(session_.get(), NGHTTP2_FLAG_NONE, exchange.id, nullptr, nv.data(), nv.size(),
                           nullptr);
    return;
  }
  const nghttp2_data_provider provider{.source = {}, .read_callback = Callbacks::read_output};
  nghttp2_submit_response(session_.get(), exchange.id, nv.data(), nv.size(),
                          kind == Head::final ? &provider : nullptr);
}

Task<Result<void>> H2Engine::wait_for_slot(Deadline deadline) {
  while (true) {
    if (closed()) co_return std::unexpected(Error{Code::unavailable, end().message});
    const auto theirs =
        nghttp2_session_get_remote_settings(session_.get(), NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    if (exchanges_.size() < std::min(limits_.streams_max, theirs)) co_return Result<void>();
    switch (co_await slot_freed_.wait(deadline)) {
      case Signal::Wake::notified:
        break;
      case Signal::Wake::timed_out:
        co_return fail(Code::deadline, "no free stream in time");
      case Signal::Wake::cancelled:
        co_return fail(Code::unavailable, "cancelled");
    }
  }
}

Task<Result<std::chrono::nanoseconds>> H2Engine::ping(Deadline deadline) {
  if (closed()) co_return std::unexpected(Error{Code::unavailable, end().message});
  auto self = shared_from_this();
  auto ping = std::make_shared<Ping>();
  const std::uint64_t number = ++pings_sent_;
  pings_.emplace(number, ping);
  std::array<std::uint8_t, 8> payload{};
  std::memcpy(payload.data(), &number, sizeof number);
  const auto start = std::chrono::steady_clock::now();
  nghttp2_submit_ping(session_.get(), NGHTTP2_FLAG_NONE, payload.data());
  wake_writer();
  auto wake = Signal::Wake::notified;
  while (!ping->done && !closed() && wake == Signal::Wake::notified)
    wake = co_await ping->answered.wait(deadline);
  pings_.erase(number);
  if (ping->done) co_return std::chrono::steady_clock::now() - start;
  if (closed()) co_return std::unexpected(Error{Code::unavailable, end().message});
  if (wake == Signal::Wake::timed_out) co_return fail(Code::deadline, "no answer to a ping in time");
  co_return fail(Code::unavailable, "cancelled");
}

// nghttp2 sends a PING before anything else it has, so little goes out once this is asked for.
Task<bool> H2Engine::hold(Deadline deadline) {
  const auto self = shared_from_this();
  held_ = true;
  last_ping_ = pings_sent_ + 1;
  co_return (co_await ping(deadline)).has_value();
}

void H2Engine::release() noexcept {
  held_ = false;
  wake_writer();
}

// ---- What users of exchanges do

void H2Engine::consumed(const Exchange& exchange, std::size_t bytes) {
  if (closed()) return;
  if (limits_.session_window_waits) nghttp2_session_consume_connection(session_.get(), bytes);
  if (!exchange.closed) nghttp2_session_consume_stream(session_.get(), exchange.id, bytes);
  wake_writer();
}

void H2Engine::output_ready(Exchange& exchange) {
  if (closed() || exchange.closed || !std::exchange(exchange.deferred, false)) return;
  nghttp2_session_resume_data(session_.get(), exchange.id);
  wake_writer();
}

// Nobody will read it: the session's share of the window goes back.
void H2Engine::drop_input(Exchange& exchange) {
  if (!closed() && limits_.session_window_waits)
    nghttp2_session_consume_connection(session_.get(), exchange.received.size());
  exchange.received.clear();
}

void H2Engine::reset(Exchange& exchange, std::uint32_t code) noexcept {
  const bool known = !closed() && !exchange.closed && exchange.out != Exchange::Side::failed;
  drop_input(exchange);
  exchange.abort({Code::unavailable, "the stream was reset on this side"});
  if (!known) return;
  nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, exchange.id, code);
  wake_writer();
}

void H2Engine::abandon(Exchange& exchange) noexcept {
  if (exchange.out != Exchange::Side::ended) return reset(exchange);
  exchange.discard = true;
  drop_input(exchange);
  if (closed() || exchange.closed || exchange.in != Exchange::Side::open) return;
  // As RFC 9113 8.1 has it: what was finished reaches the peer, then NO_ERROR says that nobody reads on.
  if (nghttp2_session_get_stream_local_close(session_.get(), exchange.id) == 1) {
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, exchange.id, NGHTTP2_NO_ERROR);
    wake_writer();
  }
}

// ---- nghttp2's callbacks. They change state and queue frames; they never end the session under nghttp2's
// feet.

int H2Engine::on_frame_begin(const nghttp2_frame_hd& head) {
  const bool empty_data =
      head.type == NGHTTP2_DATA && head.length == 0 && (head.flags & NGHTTP2_FLAG_END_STREAM) == 0;
  // Frames that cost work, but no window and no answer the peer would have to read.
  if (!empty_data && head.type != NGHTTP2_RST_STREAM && head.type != NGHTTP2_PRIORITY &&
      head.type != NGHTTP2_SETTINGS && head.type <= NGHTTP2_CONTINUATION)
    return 0;
  const auto now = std::chrono::steady_clock::now();
  if (now - second_started_ >= std::chrono::seconds(1)) {
    second_started_ = now;
    resets_this_second_ = 0;
  }
  if (++resets_this_second_ <= limits_.resets_per_second_max) return 0;
  fault_ = Error{Code::exhausted, "the peer resets streams too often"};
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

int H2Engine::on_headers_begin(const nghttp2_frame& frame) {
  if (role_ == Role::server && frame.headers.cat == NGHTTP2_HCAT_REQUEST)
    on_request_begin(*add(frame.hd.stream_id));
  return 0;
}

int H2Engine::on_header(const nghttp2_frame& frame, std::string_view name, std::string_view value) {
  const auto exchange = find(frame.hd.stream_id);
  if (!exchange) return 0;
  exchange->header_bytes += name.size() + value.size() + 32;  // as SETTINGS_MAX_HEADER_LIST_SIZE counts
  if (exchange->header_bytes > limits_.header_bytes_max) {
    fault_ = Error{Code::exhausted, "the peer's header is too long"};
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  if (name == ":status") exchange->status = std::atoi(std::string(value).c_str());
  if (name == ":method") exchange->method = value;
  if (name == ":path") exchange->path = value;
  if (name == ":authority") exchange->authority = value;
  const bool trailer = frame.headers.cat == NGHTTP2_HCAT_HEADERS;
  if (exchange->fields && !name.starts_with(':') && !trailer) exchange->fields->add(name, value);
  return 0;
}

int H2Engine::on_data(std::int32_t id, std::span<const std::byte> bytes) {
  // The session's window is given back at once, a tunnel's only as it is read: one that nobody reads fills
  // its own window and never takes the session's from the others.
  const auto exchange = find(id);
  const bool kept = exchange && !exchange->discard && exchange->in == Exchange::Side::open;
  if (!kept || !limits_.session_window_waits)
    nghttp2_session_consume_connection(session_.get(), bytes.size());
  if (!kept) return 0;
  if (!exchange->streamed) {
    if (exchange->received.size() + bytes.size() > exchange->input_max) {
      exchange->abort({Code::exhausted, fmt::format("body of more than {} bytes", exchange->input_max)});
      nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, id, NGHTTP2_ENHANCE_YOUR_CALM);
      return 0;
    }
    nghttp2_session_consume_stream(session_.get(), id, bytes.size());
  }
  exchange->received.append(bytes);
  exchange->readable.notify();
  return 0;
}

int H2Engine::on_frame(const nghttp2_frame& frame) {
  if (frame.hd.type == NGHTTP2_PING && (frame.hd.flags & NGHTTP2_FLAG_ACK) != 0) on_ping_ack(frame.ping);
  if (frame.hd.type == NGHTTP2_SETTINGS) slot_freed_.notify();
  if (frame.hd.type == NGHTTP2_GOAWAY) on_goaway(frame.goaway);
  if (frame.hd.type != NGHTTP2_HEADERS && frame.hd.type != NGHTTP2_DATA) return 0;
  const auto exchange = find(frame.hd.stream_id);
  if (!exchange) return 0;

  const bool head = frame.hd.type == NGHTTP2_HEADERS && frame.headers.cat == NGHTTP2_HCAT_REQUEST;
  const bool ended = (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  if (head && exchange->method == "CONNECT") exchange->streamed = true;
  if (ended && exchange->in == Exchange::Side::open) exchange->in = Exchange::Side::ended;
  if (role_ == Role::server && exchange->in != Exchange::Side::failed && (exchange->streamed ? head : ended))
    requests_.push_back(exchange);
  exchange->readable.notify();
  return 0;
}

void H2Engine::on_goaway(const nghttp2_goaway& frame) {
  // A client that will ask no more still waits for the answers under way.
  if (fault_ || (role_ == Role::server && frame.error_code == NGHTTP2_NO_ERROR)) return;
  fault_ = Error{Code::unavailable, fmt::format("the peer ended the session ({})", goaway_reason(frame))};
}

void H2Engine::on_ping_ack(const nghttp2_ping& frame) {
  const auto found = pings_.find(ping_number(frame.opaque_data));
  if (found == pings_.end()) return;
  found->second->done = true;
  found->second->answered.notify();
}

void H2Engine::on_frame_sent(const nghttp2_frame& frame) {
  const bool retiring = frame.hd.type == NGHTTP2_GOAWAY && frame.goaway.error_code == NGHTTP2_NO_ERROR;
  if (frame.hd.type == NGHTTP2_GOAWAY && !retiring && !fault_) fault_ = broken(goaway_reason(frame.goaway));
  if ((frame.hd.type != NGHTTP2_DATA && frame.hd.type != NGHTTP2_HEADERS) ||
      (frame.hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
    return;
  const auto exchange = find(frame.hd.stream_id);
  if (exchange && exchange->discard && exchange->in == Exchange::Side::open)
    nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, exchange->id, NGHTTP2_NO_ERROR);
}

void H2Engine::on_stream_closed(std::int32_t id, std::uint32_t error_code) {
  const auto exchange = find(id);
  if (!exchange) return;
  exchange->closed = true;
  exchanges_.erase(id);
  slot_freed_.notify();
  if (exchange->in != Exchange::Side::ended || error_code != NGHTTP2_NO_ERROR) drop_input(*exchange);
  Error why{Code::unavailable,
            fmt::format("the peer reset the stream ({})", nghttp2_http2_strerror(error_code))};
  if (error_code == NGHTTP2_NO_ERROR) {
    exchange->cut(why);
  } else {
    exchange->abort(std::move(why));
  }
}

ssize_t H2Engine::on_output_wanted(std::int32_t id, std::span<std::byte> into, std::uint32_t& flags) {
  const auto exchange = find(id);
  if (!exchange || exchange->out == Exchange::Side::failed) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  const std::size_t count = exchange->pending.take(into);
  const bool last = exchange->pending.empty() && exchange->out == Exchange::Side::ended;
  if (last) flags |= NGHTTP2_DATA_FLAG_EOF;
  if (count == 0 && !last) {
    exchange->deferred = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  exchange->writable.notify();
  return static_cast<ssize_t>(count);
}

}  // namespace space

// An HTTP/2 client for tests, on nghttp2: sends what it is told, rules or no rules, and keeps what comes
// back.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "net/byte_queue.h"
#include "net/http.h"

namespace space::h2_test {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

inline HeaderList request(std::string method, std::string path, std::string authority = "localhost") {
  return {{":method", std::move(method)},
          {":scheme", "http"},
          {":authority", std::move(authority)},
          {":path", std::move(path)}};
}
inline HeaderList with(HeaderList list, const HeaderList& more) {
  list.insert(list.end(), more.begin(), more.end());
  return list;
}

class Client {
 public:
  struct Stream {
    int status = 0;  // 0: no answer yet
    http::Fields fields;
    std::string body;
    bool ended = false;                  // in order
    std::optional<std::uint32_t> reset;  // the code
    int interim = 0;                     // heads of 1xx
    bool over() const { return ended || reset; }

    ByteQueue pending;
    bool end_sent = false;
  };

  // Without `gives_window_back` it reads no more of each answer than its first window.
  explicit Client(StreamPtr transport, bool gives_window_back = true) : transport_(std::move(transport)) {
    nghttp2_session_callbacks* table = nullptr;
    nghttp2_session_callbacks_new(&table);
    nghttp2_session_callbacks_set_on_header_callback(
        table,
        [](nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name, std::size_t name_size,
           const std::uint8_t* value, std::size_t value_size, std::uint8_t, void* user) {
          self(user).on_header(frame->hd.stream_id, {reinterpret_cast<const char*>(name), name_size},
                               {reinterpret_cast<const char*>(value), value_size});
          return 0;
        });
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        table, [](nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data, std::size_t size,
                  void* user) {
          self(user).streams_[id].body.append(reinterpret_cast<const char*>(data), size);
          return 0;
        });
    nghttp2_session_callbacks_set_on_frame_recv_callback(
        table, [](nghttp2_session*, const nghttp2_frame* frame, void* user) {
          if (frame->hd.type == NGHTTP2_GOAWAY) self(user).goaway = frame->goaway.error_code;
          const bool content = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
          if (content && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
            self(user).streams_[frame->hd.stream_id].ended = true;
          if (frame->hd.type == NGHTTP2_RST_STREAM)
            self(user).streams_[frame->hd.stream_id].reset = frame->rst_stream.error_code;
          return 0;
        });
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option, gives_window_back ? 0 : 1);
    nghttp2_option_set_max_send_header_block_length(option, 1024 * 1024);
    nghttp2_session_client_new2(&session_, table, this, option);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(table);
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, nullptr, 0);
    if (!gives_window_back) nghttp2_session_set_local_window_size(session_, 0, 0, 64 * 1024 * 1024);
  }
  ~Client() { nghttp2_session_del(session_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Until the server closes. Spawned; the client outlives it.
  Task<void> run() {
    executor_ = co_await boost::asio::this_coro::executor;
    flush();
    Bytes buffer(64 * 1024);
    while (true) {
      const auto count = co_await transport_->read(buffer);
      if (!count || *count == 0) {
        closed_in_order = count.has_value();
        break;
      }
      if (nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(buffer.data()), *count) <
          0)
        break;
      flush();
    }
    closed = true;
    (void)co_await transport_->finish();
  }

  // The number of the new stream.
  std::int32_t send(const HeaderList& headers, std::string_view body = "", bool end = true) {
    std::vector<nghttp2_nv> nv;
    for (const auto& [name, value] : headers)
      nv.push_back({bytes_of(name), bytes_of(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    const nghttp2_data_provider provider{.source = {}, .read_callback = next_body};
    const bool bodiless = body.empty() && end;
    const auto id = nghttp2_submit_request(session_, nullptr, nv.data(), nv.size(),
                                           bodiless ? nullptr : &provider, nullptr);
    streams_[id].pending.append(as_bytes(body));
    streams_[id].end_sent = end;
    flush();
    return id;
  }
  void send_more(std::int32_t id, std::string_view body, bool end) {
    streams_[id].pending.append(as_bytes(body));
    streams_[id].end_sent = end;
    nghttp2_session_resume_data(session_, id);
    flush();
  }
  void reset(std::int32_t id) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    flush();
  }
  void say_goodbye() {
    nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, 0, NGHTTP2_NO_ERROR, nullptr, 0);
    flush();
  }
  void give_window_back(std::int32_t id, std::size_t bytes) {
    nghttp2_session_consume(session_, id, bytes);
    flush();
  }

  Stream& operator[](std::int32_t id) { return streams_[id]; }
  // How much of a stream's body the server's window has not let out.
  std::size_t unsent(std::int32_t id) { return streams_[id].pending.size(); }

  bool closed = false;
  bool closed_in_order = false;
  std::optional<std::uint32_t> goaway;

 private:
  static Client& self(void* user) { return *static_cast<Client*>(user); }
  static std::uint8_t* bytes_of(const std::string& text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  }
  static ssize_t next_body(nghttp2_session*, std::int32_t id, std::uint8_t* into, std::size_t size,
                           std::uint32_t* flags, nghttp2_data_source*, void* user) {
    Stream& stream = self(user).streams_[id];
    const std::size_t count = stream.pending.take(std::as_writable_bytes(std::span(into, size)));
    if (stream.pending.empty() && stream.end_sent) *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (count == 0 && !stream.end_sent) return NGHTTP2_ERR_DEFERRED;
    return static_cast<ssize_t>(count);
  }
  void on_header(std::int32_t id, std::string_view name, std::string_view value) {
    Stream& stream = streams_[id];
    if (name == ":status") {
      const int status = std::atoi(std::string(value).c_str());
      if (status < 200) ++stream.interim;
      if (status >= 200) stream.status = status;
    } else {
      stream.fields.add(name, value);
    }
  }

  void flush() {
    if (!executor_ || std::exchange(writing_, true)) return;
    spawn(*executor_, "test client writer", write());
  }
  Task<void> write() {
    while (true) {
      const std::uint8_t* data = nullptr;
      const ssize_t count = nghttp2_session_mem_send(session_, &data);
      if (count <= 0) break;
      const Bytes copy(reinterpret_cast<const std::byte*>(data),
                       reinterpret_cast<const std::byte*>(data) + count);
      if (!co_await transport_->write(copy)) break;
    }
    writing_ = false;
  }

  StreamPtr transport_;
  nghttp2_session* session_ = nullptr;
  std::optional<Executor> executor_;
  std::map<std::int32_t, Stream> streams_;
  bool writing_ = false;
};

}  // namespace space::h2_test

#include "tests/jail/hostile/session.h"

#include "net/h2_test_frames.h"

namespace space::hostile {
namespace {

namespace h2 = h2_test;
using namespace std::chrono_literals;

constexpr std::size_t frame_bytes_max = 1 << 20;

std::uint32_t number(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

}  // namespace

bool Session::say(std::string_view bytes) {
  return wire_.write(bytes, std::chrono::steady_clock::now() + 5s, false);
}

bool Session::fill(std::size_t size) {
  while (bytes_.size() < size) {
    const std::string more = wire_.read(200);
    if (more.empty() && !wire_.host_is_there()) return false;
    bytes_ += more;
  }
  return true;
}

std::optional<Session::Frame> Session::next_frame() {
  if (!fill(9)) return std::nullopt;
  const std::size_t size = number(bytes_.substr(0, 3));
  if (size > frame_bytes_max || !fill(9 + size)) return std::nullopt;
  Frame frame{.type = number(bytes_.substr(3, 1)),
              .flags = number(bytes_.substr(4, 1)),
              .stream = number(bytes_.substr(5, 4)) & 0x7fffffff,
              .payload = bytes_.substr(9, size)};
  bytes_.erase(0, 9 + size);
  return frame;
}

std::optional<Asked> Session::next() {
  if (!greeted_) {
    if (!fill(h2::preface.size()) || !bytes_.starts_with(h2::preface)) return std::nullopt;
    bytes_.erase(0, h2::preface.size());
    greeted_ = say(h2::frame(h2::settings, 0, 0, ""));
  }
  std::string body;
  while (const auto frame = next_frame()) {
    const bool acknowledges = (frame->flags & h2::ack) != 0;
    if (frame->type == h2::settings && !acknowledges) say(h2::frame(h2::settings, h2::ack, 0, ""));
    if (frame->type == h2::ping && !acknowledges) say(h2::frame(h2::ping, h2::ack, 0, frame->payload));
    if (frame->type != h2::data) continue;
    // Calls are JSON objects; whatever else is sent is a tunnel's.
    if (body.empty() && !frame->payload.starts_with("{"))
      return Asked{.tunnel = true, .stream = frame->stream, .body = frame->payload};
    body += frame->payload;
    if ((frame->flags & h2::end_stream) != 0) return Asked{.stream = frame->stream, .body = std::move(body)};
  }
  return std::nullopt;
}

void Session::answer(std::uint32_t stream, std::string_view body) {
  say(h2::frame(h2::headers, h2::end_headers, stream, "\x88") +
      h2::frame(h2::data, h2::end_stream, stream, body));
}

}  // namespace space::hostile

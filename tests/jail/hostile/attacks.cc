#include "tests/jail/hostile/attacks.h"

#include <algorithm>
#include <iterator>

#include "net/h2_test_frames.h"

namespace space::hostile {
namespace {

namespace h2 = h2_test;

constexpr unsigned priority = 2, push_promise = 5, window_update = 8, continuation = 9, unknown = 0xb0;
constexpr std::string_view status_200 = "\x88";  // HPACK: entry 8 of the static table
constexpr std::size_t frame_bytes_max = 16'384;

std::string number(std::uint32_t value) {
  std::string out;
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
  return out;
}
std::string many(std::size_t count, const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += text;
  return out;
}
std::string zeros(std::size_t count) {
  return std::string(count, '\0');
}
// The head of an answer to `stream`; its body follows.
std::string accepted(std::uint32_t stream) {
  return h2::frame(h2::headers, h2::end_headers, stream, status_200);
}
std::string body(std::uint32_t stream, std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += frame_bytes_max)
    out += h2::frame(h2::data, 0, stream, text.substr(at, frame_bytes_max));
  return out;
}
// HPACK: a literal that enters the table.
std::string indexed_header(std::string_view name, std::string_view value) {
  std::string out = h2::header(name, value);
  out[0] = '\x40';
  return out;
}
std::string http(std::string_view head, std::string_view rest) {
  return std::string("HTTP/1.1 ") + std::string(head) + "\r\n" + std::string(rest);
}
std::string small_answer(std::string_view text) {
  return http("200 OK",
              "Content-Type: text/plain\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n") +
         std::string(text);
}

// clang-format off
constexpr Attack attacks[] = {
    // The handshake.
    {"boot-mute", Stage::boot, [](const Scene&) { return Script{.once = "", .again = ""}; }},
    {"boot-flood", Stage::boot, [](const Scene&) { return Script{.once = "", .again = std::string(65'536, 'x')}; }},
    {"boot-version", Stage::boot, [](const Scene& s) { return Script{.once = s.no_version, .again = ""}; }},
    {"sync-mute", Stage::sync, [](const Scene&) { return Script{.once = "", .again = ""}; }},
    {"sync-flood", Stage::sync, [](const Scene&) { return Script{.once = "", .again = many(8'000, "SPACEACx")}; }},
    {"sync-replay", Stage::sync, [](const Scene& s) { return Script{.once = "", .again = many(1'000, s.old_answer)}; }},
    {"sync-reflect", Stage::sync, [](const Scene& s) { return Script{.once = "", .again = many(1'000, s.sync)}; }},
    {"sync-half", Stage::sync, [](const Scene& s) { return Script{.once = s.answer.substr(0, 20), .again = ""}; }},
    {"sync-slow", Stage::sync, [](const Scene& s) { return Script{.once = s.answer, .again = "", .pause_ms = 100}; }},
    {"sync-break", Stage::sync, [](const Scene& s) { return Script{.once = s.answer + std::string(64, '\xff'), .again = ""}; }},
    // HTTP/2.
    {"h2-length", Stage::tunnel, [](const Scene& s) { return Script{.once = "\xff\xff\xff" + h2::frame(h2::data, 0, s.stream, "").substr(3), .again = zeros(65'536)}; }},
    {"h2-garbage", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = many(10'000, "\x7f\x01\xfe\x3c\x80")}; }},
    {"h2-half-frame", Stage::tunnel, [](const Scene& s) { return Script{.once = h2::frame(h2::data, 0, s.stream, zeros(10'000)).substr(0, 12), .again = ""}; }},
    {"h2-slow", Stage::tunnel, [](const Scene& s) { return Script{.once = accepted(s.stream) + body(s.stream, "HTTP/1.1 200 OK\r\n"), .again = body(s.stream, "x"), .pause_ms = 30}; }},
    {"h2-mute", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = "", .reads = false}; }},
    {"h2-strangers", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = accepted(2'001) + body(2'001, "x")}; }},
    {"h2-late-answers", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = many(100, accepted(1) + body(1, zeros(1'000)))}; }},
    {"h2-own-streams", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = h2::frame(h2::headers, h2::end_headers, 2, h2::post("/"))}; }},
    {"h2-push", Stage::tunnel, [](const Scene& s) { return Script{.once = "", .again = h2::frame(push_promise, h2::end_headers, s.stream, number(2) + h2::post("/"))}; }},
    {"h2-rapid-reset", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = many(1'000, h2::frame(h2::rst_stream, 0, 1, number(8)))}; }},
    {"h2-settings", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = many(1'000, h2::frame(h2::settings, 0, 0, ""))}; }},
    {"h2-settings-unread", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = many(1'000, h2::frame(h2::settings, 0, 0, "")), .reads = false}; }},
    {"h2-ping", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = many(1'000, h2::frame(h2::ping, 0, 0, "12345678"))}; }},
    {"h2-ping-unread", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = many(1'000, h2::frame(h2::ping, 0, 0, "12345678")), .reads = false}; }},
    {"h2-priority", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = many(1'000, h2::frame(priority, 0, 4'001, number(1) + "x"))}; }},
    {"h2-continuation", Stage::tunnel, [](const Scene& s) { return Script{.once = h2::frame(h2::headers, 0, s.stream, status_200), .again = many(1'000, h2::frame(continuation, 0, s.stream, h2::header("x", std::string(100, 'y'))))}; }},
    {"h2-continuation-empty", Stage::tunnel, [](const Scene& s) { return Script{.once = h2::frame(h2::headers, 0, s.stream, status_200), .again = many(1'000, h2::frame(continuation, 0, s.stream, ""))}; }},
    {"h2-hpack", Stage::tunnel, [](const Scene& s) {
       const std::string bomb = std::string(status_200) + indexed_header("x", std::string(3'900, 'y')) + std::string(12'000, '\xbe');
       return Script{.once = h2::frame(h2::headers, h2::end_headers, s.stream, bomb), .again = h2::frame(h2::headers, h2::end_headers, 1, bomb)}; }},
    {"h2-window", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = h2::frame(window_update, 0, 0, number(0x7fffffff))}; }},
    {"h2-window-flood", Stage::tunnel, [](const Scene&) { return Script{.once = h2::frame(h2::settings, 0, 0, std::string("\0\4\0\0\0\0", 6)), .again = many(1'000, h2::frame(window_update, 0, 0, number(1)))}; }},
    {"h2-data", Stage::tunnel, [](const Scene& s) { return Script{.once = accepted(s.stream), .again = many(8, body(s.stream, zeros(frame_bytes_max)))}; }},
    {"h2-goaway", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = h2::frame(h2::goaway, 0, 0, number(0) + number(2) + std::string(16'000, '\x1b'))}; }},
    {"h2-unknown", Stage::tunnel, [](const Scene&) { return Script{.once = "", .again = many(8, h2::frame(unknown, 0xff, 77, zeros(frame_bytes_max)))}; }},
    // Answers to the host's own calls.
    {"call-mute", Stage::call, [](const Scene&) { return Script{.once = "", .again = ""}; }},
    {"call-body", Stage::call, [](const Scene& s) { return Script{.once = accepted(s.stream), .again = many(8, body(s.stream, std::string(frame_bytes_max, ' ')))}; }},
    {"call-json", Stage::call, [](const Scene& s) { return Script{.once = accepted(s.stream) + body(s.stream, "{\"a\":" + std::string(900'000, '[')) + h2::frame(h2::data, h2::end_stream, s.stream, ""), .again = ""}; }},
    {"call-numbers", Stage::call, [](const Scene& s) { return Script{.once = accepted(s.stream) + h2::frame(h2::data, h2::end_stream, s.stream, R"({"cpu_count":4294967296,"cpu_used_us":-1,"mem_total":18446744073709551616,"mem_used":1e999,"leases":[[]],"processes":-9223372036854775808})"), .again = ""}; }},
    // HTTP inside a tunnel: meant for space-control.
    {"http-head", Stage::tunnel, [](const Scene& s) { return Script{.once = accepted(s.stream) + body(s.stream, "HTTP/1.1 200 OK\r\n"), .again = body(s.stream, many(100, "X-Y: " + std::string(100, 'z') + "\r\n"))}; }},
    {"http-continue", Stage::tunnel, [](const Scene& s) { return Script{.once = accepted(s.stream), .again = body(s.stream, many(100, http("100 Continue", "\r\n")))}; }},
    {"http-chunk", Stage::tunnel, [](const Scene& s) { return Script{.once = accepted(s.stream) + body(s.stream, http("200 OK", "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n")), .again = body(s.stream, std::string(10'000, 'x'))}; }},
    {"http-twice", Stage::tunnel, [](const Scene& s) { return Script{.once = accepted(s.stream) + body(s.stream, many(20, small_answer("forged"))), .again = ""}; }},
};
// clang-format on

}  // namespace

const Attack* find_attack(std::string_view name) {
  const auto* found = std::ranges::find(attacks, name, &Attack::name);
  return found == std::end(attacks) ? nullptr : found;
}

}  // namespace space::hostile

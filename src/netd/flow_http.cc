// Flows of plain HTTP: each request is judged by itself and written anew, each answer too.
#include <sys/socket.h>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "net/http_io.h"
#include "net/http_text.h"
#include "netd/http_request.h"
#include "netd/sandbox_gate.h"

namespace space::netd {
namespace {

using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;

constexpr Millis head_limit = 10s;
constexpr Millis answer_limit = std::chrono::hours(24);  // an answer may be long in coming
constexpr std::size_t piece_bytes = 32 * 1024;

// One end of the flow.
struct Side {
  explicit Side(FlowSocketPtr socket)
      : stream(stream_of(std::move(socket))), input(*stream), body(input), writer(*stream) {}
  StreamPtr stream;
  http::Input input;
  http::BodyReader body;
  http::MessageWriter writer;
};

struct Answer {
  http::ParsedResponse parsed;
  std::string method;  // of the request
  bool bodiless() const {
    const int status = parsed.head.status;
    return method == "HEAD" || status / 100 == 1 || status == 204 || status == 304;
  }
};

std::string denial_body(const EgressVerdict& verdict, const std::string& host, std::uint64_t generation) {
  return space::to_text(JsonObject{{"error", "egress_denied"},
                                   {"reason", to_string(verdict.reason)},
                                   {"host", host},
                                   {"rule", verdict.rule},
                                   {"policy_generation", generation}}) +
         "\n";
}

int status_of(EgressReason reason) {
  switch (reason) {
    case EgressReason::deny_bad_request:
    case EgressReason::deny_bad_name:
      return 400;
    case EgressReason::unresolved:
    case EgressReason::unreachable:
      return 502;
    case EgressReason::timeout:
      return 504;
    case EgressReason::deny_limit:
      return 429;
    default:
      return 403;
  }
}

class HttpFlow {
 public:
  explicit HttpFlow(FlowPtr flow) : flow_(std::move(flow)), guest_(flow_->guest()) {}

  Task<void> run() {
    while (co_await next_request()) {
    }
    if (gone_ || guest_.input.failed()) co_return flow_->guest()->reset();
    if (upgraded_) co_return co_await carry_upgraded();
    if (upstream_ && upstream_is_alive()) flow_->upstream()->close();
    co_await say_goodbye(flow_->guest(), {});
  }

 private:
  // The next head of the guest; nullopt: no more requests. What is no request was answered.
  Task<std::optional<GuestRequest>> read_request();
  Task<bool> next_request();
  Task<void> refuse(EgressVerdict verdict);
  Task<std::expected<void, FlowRefusal>> find_upstream(RequestQuestion question);
  bool upstream_is_alive();
  Task<bool> exchange(const GuestRequest& request);
  Task<Result<void>> send_body(bool expects_continue);
  Task<void> send_body_and_wait(bool expects_continue);
  Task<void> answer(const GuestRequest& request);
  Task<void> guest_gone();
  Task<Result<Answer>> read_answer(std::string method);
  Task<Result<void>> pass_answer(const GuestRequest& request, Answer answer);
  Task<Result<void>> pass_body();
  Task<bool> moved(bool to_guest, std::size_t bytes);
  Task<void> carry_upgraded();

  FlowPtr flow_;
  Side guest_;
  std::unique_ptr<Side> upstream_;
  bool first_ = true;
  bool keep_ = false;       // after the exchange under way another request may follow
  bool upgraded_ = false;   // a websocket from now on
  bool body_sent_ = false;  // of the request under way
  bool gone_ = false;       // the guest broke off
};

// Whoever has begun a head finishes it in time; between requests a connection may be idle.
Task<std::optional<GuestRequest>> HttpFlow::read_request() {
  if (!first_ && guest_.input.pending().empty()) {
    const auto n = co_await guest_.input.fill();
    if (!n || *n == 0) co_return std::nullopt;
  }
  first_ = false;
  auto span = co_await with_deadline(guest_.input.find_head(), Deadline::after(head_limit), "a request");
  if (span && !*span) co_return std::nullopt;
  if (!span) {
    const bool late = span.error().code == Code::deadline;
    const bool silent = guest_.input.pending().empty() || guest_.input.over();
    flow_->ask(RequestQuestion{});
    if (!silent) co_await refuse({.reason = late ? EgressReason::timeout : EgressReason::deny_bad_request});
    co_return std::nullopt;
  }
  const auto bytes = guest_.input.pending();
  auto request = bytes.starts_with("PRI * HTTP/2.0")
                     ? Result<GuestRequest>(fail(Code::permission_denied, "HTTP/2"))
                     : read_guest_request(bytes.substr((*span)->begin, (*span)->end - (*span)->begin));
  guest_.input.consume((*span)->end);
  if (request) co_return *std::move(request);
  flow_->ask(RequestQuestion{});
  const bool http2 = request.error().code == Code::permission_denied;
  co_await refuse({.reason = http2 ? EgressReason::deny_protocol : EgressReason::deny_bad_request});
  co_return std::nullopt;
}

// Says why and ends the connection: what follows a refused request is not read.
Task<void> HttpFlow::refuse(EgressVerdict verdict) {
  flow_->log_refusal(verdict);
  const std::string body = denial_body(verdict, flow_->entry(verdict).host, flow_->gate().generation());
  http::ResponseHead head{.status = status_of(verdict.reason), .fields = {}, .content_length = {}};
  head.fields.add("Content-Type", "application/json");
  std::string text;
  (void)http::append_response_head(text, head, {.content_length = body.size(), .close = true});
  flow_->close_upstream();
  co_await say_goodbye(flow_->guest(), text + body);
}

Task<bool> HttpFlow::next_request() {
  auto request = co_await read_request();
  if (!request) co_return false;
  guest_.body.start(request->parsed.framing, request->parsed.head.content_length.value_or(0));
  RequestQuestion question{request->host.host.name, request->parsed.head.method, request->path};
  if (question.method == "CONNECT") {
    flow_->ask(std::move(question));
    co_await refuse({.reason = EgressReason::deny_protocol});
    co_return false;
  }
  if (const auto found = co_await find_upstream(question); !found) {
    co_await refuse(found.error().verdict);
    co_return false;
  }
  co_return co_await exchange(*request);
}

// The connection there is, when it leads where this request goes; else a new one.
Task<std::expected<void, FlowRefusal>> HttpFlow::find_upstream(RequestQuestion question) {
  FlowDecision decision = flow_->ask(question);
  if (!decision.verdict.allowed) co_return std::unexpected(FlowRefusal{std::move(decision.verdict)});
  if (upstream_ && flow_->leads_to(decision) && upstream_is_alive() && flow_->judge_again().allowed) {
    flow_->log_allowed(std::move(decision.verdict));
    co_return std::expected<void, FlowRefusal>();
  }
  upstream_ = nullptr;
  flow_->close_upstream();
  auto opened = co_await flow_->open(std::move(question));
  if (!opened) co_return opened;
  upstream_ = std::make_unique<Side>(flow_->upstream());
  flow_->log_allowed(std::move(decision.verdict));
  co_return opened;
}

// Between two requests a server says nothing: its end, or bytes nobody asked for, end its use.
bool HttpFlow::upstream_is_alive() {
  if (!upstream_->input.pending().empty() || upstream_->input.over()) return false;
  char byte = 0;
  return ::recv(flow_->upstream()->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

// False: the connection ends.
Task<bool> HttpFlow::exchange(const GuestRequest& request) {
  http::RequestHead head = head_for_upstream(request);
  keep_ = request.parsed.head.keep_alive;
  body_sent_ = !head.has_body();
  if (!http::append_request_head(upstream_->writer.head(), head)) co_return false;
  upstream_->writer.start(head.chunked      ? http::Framing::chunked
                          : head.has_body() ? http::Framing::length
                                            : http::Framing::none,
                          head.content_length.value_or(0));
  if (body_sent_) {
    (void)co_await upstream_->writer.end();
    co_await (answer(request) || guest_gone());
  } else {
    // A server may answer before it has the whole request; the rest is then not sent.
    co_await (send_body_and_wait(request.parsed.expects_continue) || answer(request) || guest_gone());
  }
  co_return keep_ && !upgraded_ && !gone_ && guest_.body.done();
}

// Its end alone is none: it may still wait for the answer.
Task<void> HttpFlow::guest_gone() {
  co_await guest_.input.wait_until_over();
  if (!guest_.input.failed()) co_await flow_->guest()->broken();
  gone_ = true;
  flow_->upstream()->reset();
}

Task<bool> HttpFlow::moved(bool to_guest, std::size_t bytes) {
  Traffic& traffic = flow_->gate().traffic();
  (to_guest ? flow_->count().in : flow_->count().out) += bytes;
  const Millis pause = traffic.moved(to_guest, bytes, system_clock().monotonic());
  if (traffic.quota_used_up()) {
    flow_->note_quota();
    co_return false;
  }
  if (pause > Millis(0)) co_await sleep_for(pause);
  co_return true;
}

Task<Result<void>> HttpFlow::send_body(bool expects_continue) {
  SPACE_CO_CHECK(co_await upstream_->writer.flush());
  if (expects_continue && guest_.input.pending().empty())
    SPACE_CO_CHECK(co_await guest_.stream->write(as_bytes("HTTP/1.1 100 Continue\r\n\r\n")));
  Bytes piece(piece_bytes);
  while (!guest_.body.done()) {
    SPACE_CO_TRY(const std::size_t n, co_await guest_.body.read(piece));
    if (!co_await moved(false, n)) co_return fail(Code::exhausted, "quota");
    SPACE_CO_CHECK(co_await upstream_->writer.write(std::span(piece).first(n)));
  }
  co_return co_await upstream_->writer.end();
}

// Does not end by itself when it went well: the answer does.
Task<void> HttpFlow::send_body_and_wait(bool expects_continue) {
  const auto sent = co_await send_body(expects_continue);
  body_sent_ = sent.has_value();
  // A guest that broke off, or breaks the rules half-way: the server must not take what it got for a whole
  // request. A server that takes no more may still say why.
  if (!sent && sent.error().code != Code::unavailable) flow_->upstream()->reset();
  if (!sent && guest_.input.failed()) flow_->upstream()->reset();
  Event never(co_await boost::asio::this_coro::executor);
  co_await never.wait();
}

Task<void> HttpFlow::answer(const GuestRequest& request) {
  auto read = co_await read_answer(request.parsed.head.method);
  if (!read) {
    keep_ = false;
    if (read.error().code == Code::deadline) co_return co_await refuse({.reason = EgressReason::timeout});
    co_return co_await refuse({.reason = EgressReason::unreachable});
  }
  if (!body_sent_) keep_ = false;
  const bool reusable = read->parsed.keep_alive && body_sent_;
  const auto passed = co_await pass_answer(request, *std::move(read));
  if (!passed) {
    keep_ = false;
    flow_->guest()->reset();  // no half answer looks like a whole one
  }
  if (!upgraded_ && (!passed || !reusable)) {
    flow_->upstream()->reset();
  }
}

Task<Result<Answer>> HttpFlow::read_answer(std::string method) {
  const Deadline deadline = Deadline::after(answer_limit);
  while (true) {
    SPACE_CO_TRY(const auto span,
                 co_await with_deadline(upstream_->input.find_head(), deadline, "an answer"));
    if (!span) co_return fail(Code::unavailable, "the server ended the connection");
    Answer answer{.parsed = {}, .method = method};
    SPACE_CO_TRY(answer.parsed,
                 http::parse_response_head(
                     upstream_->input.pending().substr(span->begin, span->end - span->begin), method));
    upstream_->input.consume(span->end);
    if (answer.parsed.head.status / 100 == 1 && answer.parsed.head.status != 101) continue;
    upstream_->body.start(answer.parsed.framing, answer.parsed.head.content_length.value_or(0));
    co_return answer;
  }
}

Task<Result<void>> HttpFlow::pass_answer(const GuestRequest& request, Answer answer) {
  http::ResponseHead& head = answer.parsed.head;
  const bool switching = head.status == 101;
  if (switching && !(request.websocket && head.fields.has_token("Upgrade", "websocket")))
    co_return fail(Code::invalid_argument, "an upgrade nobody asked for");
  head.fields = fields_for_guest(head.fields, switching);
  const bool bodiless = answer.bodiless();
  const bool chunked = !bodiless && !head.content_length && request.parsed.http_1_1;
  if (!bodiless && !head.content_length && !chunked) keep_ = false;
  const auto length = head.status / 100 == 1 || head.status == 204 ? std::nullopt : head.content_length;
  SPACE_CO_CHECK(http::append_response_head(
      guest_.writer.head(), head,
      {.content_length = length, .chunked = chunked, .close = !keep_ && !switching}));
  guest_.writer.start(bodiless  ? http::Framing::none
                      : chunked ? http::Framing::chunked
                      : length  ? http::Framing::length
                                : http::Framing::until_close,
                      length.value_or(0));
  if (switching) {
    upgraded_ = true;
    co_return co_await guest_.writer.end();
  }
  co_return co_await pass_body();
}

Task<Result<void>> HttpFlow::pass_body() {
  SPACE_CO_CHECK(co_await guest_.writer.flush());
  if (!upstream_->body.done()) {
    Bytes piece(piece_bytes);
    while (!upstream_->body.done()) {
      SPACE_CO_TRY(const std::size_t n, co_await upstream_->body.read(piece));
      if (!co_await moved(true, n)) co_return fail(Code::exhausted, "quota");
      SPACE_CO_CHECK(co_await guest_.writer.write(std::span(piece).first(n)));
    }
  }
  co_return co_await guest_.writer.end();
}

// After the server's 101 the connection is no HTTP any more: nothing of it is read or judged.
Task<void> HttpFlow::carry_upgraded() {
  if (!co_await guest_.stream->write(upstream_->input.take_pending())) co_return flow_->guest()->reset();
  if (!co_await upstream_->stream->write(guest_.input.take_pending())) co_return flow_->guest()->reset();
  co_await flow_->relay_rest();
}

}  // namespace

Task<void> run_http(FlowPtr flow) {
  HttpFlow http(std::move(flow));
  co_await http.run();
}

}  // namespace space::netd

// Flows to ports of TLS: which server the client names decides, its bytes go on as they are.
#include <sys/socket.h>

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "netd/client_hello.h"
#include "netd/sandbox_gate.h"

namespace space::netd {
namespace {

using namespace std::chrono_literals;
using namespace boost::asio::experimental::awaitable_operators;

constexpr Millis hello_limit = 5s;

// Alerts a guest's TLS library turns into words.
enum class Alert : unsigned char { access_denied = 49, internal_error = 80 };

std::string record_of(Alert alert) {
  constexpr char alert_record = 21;
  constexpr char fatal = 2;
  return {alert_record, 3, 3, 0, 2, fatal, static_cast<char>(alert)};
}

struct Hello {
  ClientHelloReader reader;
  Bytes bytes;         // all that was read, to be sent on
  bool ended = false;  // the guest sent its end, or broke off
};

// Reads until the message is whole, is none, or `deadline` passed.
Task<void> read_hello(FlowSocketPtr guest, Hello& hello, Deadline deadline) {
  Bytes piece(ClientHelloReader::max_bytes / 4);
  while (hello.reader.state() == ClientHelloReader::State::more && !hello.ended && !deadline.passed()) {
    const ssize_t n = ::recv(guest->fd(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (n > 0) {
      const auto bytes = std::span(piece).first(static_cast<std::size_t>(n));
      hello.bytes.insert(hello.bytes.end(), bytes.begin(), bytes.end());
      hello.reader.feed(bytes);
    } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
      co_await (guest->readable() || sleep_until(deadline));
    } else {
      hello.ended = true;
    }
  }
}

FlowQuestion question_of(const Hello& hello) {
  using State = ClientHelloReader::State;
  if (hello.reader.state() == State::more)
    return NamelessQuestion{hello.bytes.empty() ? EgressReason::deny_no_name : EgressReason::timeout};
  if (hello.reader.state() == State::not_tls) return NamelessQuestion{EgressReason::deny_protocol};
  if (hello.reader.state() == State::invalid) return NamelessQuestion{EgressReason::deny_bad_name};
  if (!hello.reader.server_name()) return NamelessQuestion{EgressReason::deny_no_name, EgressProtocol::tls};
  auto name = wire_host_name(*hello.reader.server_name());
  if (!name) return NamelessQuestion{EgressReason::deny_bad_name, EgressProtocol::tls};
  return TlsQuestion{*std::move(name)};
}

bool is_failure(EgressReason reason) {
  return reason == EgressReason::unresolved || reason == EgressReason::unreachable ||
         reason == EgressReason::timeout;
}

Task<void> refuse_tls(FlowPtr flow, FlowRefusal refusal, bool speaks_tls) {
  flow->log_refusal(refusal.verdict);
  if (refusal.answered || !speaks_tls) co_return flow->guest()->reset();
  const Alert alert = is_failure(refusal.verdict.reason) ? Alert::internal_error : Alert::access_denied;
  co_await say_goodbye(flow->guest(), record_of(alert));
}

}  // namespace

Task<void> run_tls(FlowPtr flow) {
  Hello hello;
  co_await read_hello(flow->guest(), hello, Deadline::after(hello_limit));
  if (hello.ended) co_return flow->guest()->reset();
  const bool speaks_tls = hello.reader.state() != ClientHelloReader::State::not_tls && !hello.bytes.empty();
  const auto opened = co_await flow->open(question_of(hello));
  if (!opened) co_return co_await refuse_tls(flow, opened.error(), speaks_tls);
  // Here, and only here, a flow of TLS that may go on gets its carrier: its bytes as they are. One whose
  // content is to be seen would get another.
  co_await flow->carry(std::move(hello.bytes));
}

}  // namespace space::netd

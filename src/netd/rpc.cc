#include "netd/rpc.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <limits>

#include "base/ids.h"
#include "base/log.h"
#include "base/unix_address.h"
#include "netd/test_url.h"

namespace space::netd {
namespace asio = boost::asio;

namespace {

using namespace std::chrono_literals;

constexpr Millis resource_pause = 50ms;
constexpr std::int64_t integer_max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t log_limit_default = 100;
constexpr std::int64_t log_limit_max = 1000;
constexpr std::int64_t log_wait_max_ms = 30'000;

CallResponse failure(const Error& error) {
  return {http_status_of(error.code),
          space::to_text(JsonObject{{"code", to_string(error.code)}, {"message", error.message}})};
}

Result<std::string> id_in(const JsonObject& body, std::string_view key = "id") {
  SPACE_TRY(std::string id, require_text(body, key));
  if (!is_sandbox_id(id)) return fail(Code::invalid_argument, "{}: not a sandbox id", key);
  return id;
}

Result<StoredPolicy> policy_in(const JsonObject& body) {
  StoredPolicy stored;
  SPACE_TRY(const std::int64_t generation, require_int(body, "generation", 0, integer_max));
  SPACE_TRY(const JsonObject* policy, object_member(body, "policy"));
  if (policy == nullptr) return fail(Code::invalid_argument, "policy: required");
  SPACE_TRY(stored.policy, parse_egress_policy(*policy, Gateway::rights()));
  stored.generation = static_cast<std::uint64_t>(generation);
  return stored;
}

JsonObject to_json(const GateStats& stats) {
  JsonObject by_reason;
  for (std::size_t i = 0; i < stats.counters.by_reason.size(); ++i)
    if (stats.counters.by_reason[i] > 0)
      by_reason[to_string(static_cast<EgressReason>(i))] = stats.counters.by_reason[i];
  return {{"flows", stats.flows},
          {"flows_total", stats.counters.flows_total},
          {"denied_total", stats.counters.denied_total},
          {"bytes_in", stats.bytes_in},
          {"bytes_out", stats.bytes_out},
          {"dns_queries", stats.counters.dns_queries},
          {"dns_refused", stats.counters.dns_refused},
          {"by_reason", std::move(by_reason)}};
}

}  // namespace

Task<CallResponse> GatewayRpc::call(CallRequest request) {
  auto body = parse_json_object(request.body.empty() ? "{}" : request.body, "request");
  if (!body) co_return failure(body.error());
  const auto answer = co_await dispatch(std::move(request.path), *std::move(body));
  if (!answer) co_return failure(answer.error());
  co_return CallResponse{200, space::to_text(*answer)};
}

GatewayRpc::Answer GatewayRpc::dispatch(std::string path, JsonObject body) {
  if (path == "/gateway/attach") return attach(std::move(body));
  if (path == "/gateway/policy") return policy(std::move(body));
  if (path == "/gateway/detach") return detach(std::move(body));
  if (path == "/gateway/forget") return forget(std::move(body));
  if (path == "/gateway/list") return list(std::move(body));
  if (path == "/gateway/test") return test(std::move(body));
  if (path == "/gateway/log") return log(std::move(body));
  if (path == "/gateway/stats") return stats(std::move(body));
  return [](std::string unknown) -> Answer {
    co_return fail(Code::not_found, "no call {}", quoted(unknown));
  }(std::move(path));
}

GatewayRpc::Answer GatewayRpc::attach(JsonObject body) {
  SPACE_CO_TRY(std::string id, id_in(body));
  SPACE_CO_TRY(StoredPolicy stored, policy_in(body));
  SPACE_CO_TRY(const auto named, text_member(body, "pins_of"));
  std::optional<std::string> pins_of;
  if (named) {
    SPACE_CO_TRY(pins_of, id_in(body, "pins_of"));
  }
  const std::uint64_t generation = stored.generation;
  SPACE_CO_CHECK(co_await gateway_.attach(std::move(id), std::move(stored), std::move(pins_of)));
  co_return JsonObject{{"generation", generation}};
}

GatewayRpc::Answer GatewayRpc::policy(JsonObject body) {
  SPACE_CO_TRY(std::string id, id_in(body));
  SPACE_CO_TRY(StoredPolicy stored, policy_in(body));
  const std::uint64_t generation = stored.generation;
  SPACE_CO_TRY(const std::size_t cut, co_await gateway_.set_policy(std::move(id), std::move(stored)));
  co_return JsonObject{{"generation", generation}, {"cut", cut}};
}

GatewayRpc::Answer GatewayRpc::detach(JsonObject body) {
  SPACE_CO_TRY(std::string id, id_in(body));
  SPACE_CO_CHECK(co_await gateway_.detach(std::move(id)));
  co_return JsonObject();
}

GatewayRpc::Answer GatewayRpc::forget(JsonObject body) {
  SPACE_CO_TRY(std::string id, id_in(body));
  SPACE_CO_CHECK(co_await gateway_.forget(std::move(id)));
  co_return JsonObject();
}

GatewayRpc::Answer GatewayRpc::list(JsonObject) {
  JsonArray sandboxes;
  for (const GateStatus& gate : co_await gateway_.list())
    sandboxes.push_back(JsonObject{{"id", gate.id},
                                   {"generation", gate.generation},
                                   {"attached", gate.attached},
                                   {"flows", gate.flows}});
  co_return JsonObject{{"sandboxes", std::move(sandboxes)}};
}

GatewayRpc::Answer GatewayRpc::test(JsonObject body) {
  SPACE_CO_TRY(std::string id, id_in(body));
  SPACE_CO_TRY(TestQuestion question, test_question_in(body));
  const std::string host = question.host.text();
  const std::uint16_t port = question.port;
  SPACE_CO_TRY(const TestAnswer answer, co_await gateway_.test(std::move(id), std::move(question)));
  JsonArray addresses;
  for (const std::string& address : answer.addresses) addresses.push_back(Json(address));
  co_return JsonObject{{"allowed", answer.verdict.allowed},
                       {"reason", to_string(answer.verdict.reason)},
                       {"rule", answer.verdict.rule},
                       {"explanation", explain(answer.verdict.reason)},
                       {"host", host},
                       {"port", port},
                       {"addresses", std::move(addresses)},
                       {"generation", answer.generation}};
}

GatewayRpc::Answer GatewayRpc::log(JsonObject body) {
  SPACE_CO_TRY(std::string id, id_in(body));
  SPACE_CO_TRY(const auto after, int_member(body, "after", 0, integer_max));
  SPACE_CO_TRY(const auto limit, int_member(body, "limit", 1, log_limit_max));
  SPACE_CO_TRY(const auto wait_ms, int_member(body, "wait_ms", 0, log_wait_max_ms));
  const Deadline wait = Deadline::after(Millis(wait_ms.value_or(0)));
  SPACE_CO_TRY(const EgressLog::Page page,
               co_await gateway_.log(std::move(id), static_cast<std::uint64_t>(after.value_or(0)),
                                     static_cast<std::size_t>(limit.value_or(log_limit_default)), wait));
  JsonArray entries;
  for (const LogEntry& entry : page.entries) entries.push_back(netd::to_json(entry));
  co_return JsonObject{{"entries", std::move(entries)}, {"next", page.next}, {"gap", page.gap}};
}

GatewayRpc::Answer GatewayRpc::stats(JsonObject body) {
  SPACE_CO_TRY(std::string id, id_in(body));
  SPACE_CO_TRY(const GateStats stats, co_await gateway_.stats(std::move(id)));
  co_return to_json(stats);
}

Result<GatewayDoor> GatewayDoor::open(const std::string& path, uid_t peer) {
  SPACE_TRY(const UnixAddress address, UnixAddress::of(path));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(errno, "replace socket");
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno(errno, "socket");
  if (::bind(fd.get(), address.get(), address.size()) != 0) return fail_errno(errno, "bind");
  // Nobody can connect before listen, so the mode is in place in time.
  if (::chmod(path.c_str(), 0660) != 0) return fail_errno(errno, "chmod socket");
  if (::listen(fd.get(), SOMAXCONN) != 0) return fail_errno(errno, "listen");
  return GatewayDoor(std::move(fd), peer);
}

bool GatewayDoor::may_enter(int fd) const {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  if (peer.uid == peer_ || peer.uid == 0) return true;
  log::warn("connection of another user refused", {{"uid", peer.uid}, {"expected", peer_}});
  return false;
}

namespace {

Task<void> serve_session(StreamPtr stream, GatewayRpc& rpc) {
  const auto session = H2Session::server(
      std::move(stream), {.call = [&rpc](CallRequest request) { return rpc.call(std::move(request)); }});
  const Error ended = co_await session->run();
  log::debug("session ended", {log::Field(ended)});
}

}  // namespace

Task<void> GatewayDoor::serve(GatewayRpc& rpc) {
  const Executor executor = co_await asio::this_coro::executor;
  asio::posix::stream_descriptor listener(executor, listener_.release());
  while (true) {
    Fd fd(::accept4(listener.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const int error = errno;
    if (fd) {
      if (may_enter(fd.get()))
        spawn(executor, "gateway session", serve_session(make_stream(executor, std::move(fd)), rpc));
    } else if (error == EAGAIN) {
      co_await listener.async_wait(asio::posix::stream_descriptor::wait_read,
                                   asio::as_tuple(asio::use_awaitable));
    } else {
      co_await sleep_for(resource_pause);
    }
  }
}

}  // namespace space::netd

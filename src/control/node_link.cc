#include "control/node_link.h"

#include <algorithm>

#include "base/log.h"

namespace space::control {
namespace {

constexpr Millis hello_patience{10'000};
// Each command a client follows holds one tunnel.
constexpr std::uint32_t streams_max = 4096;

Code code_from(std::string_view name, int status) {
  for (int i = 0; i <= static_cast<int>(Code::internal); ++i)
    if (to_string(static_cast<Code>(i)) == name) return static_cast<Code>(i);
  return status == 404 ? Code::not_found : Code::internal;
}

Error refusal(const CallResponse& response) {
  const auto body = parse_json_object(response.body, "the node's answer");
  if (!body) return {Code::internal, fmt::format("the node answered {}", response.status)};
  const auto code = text_member(*body, "code");
  const auto message = text_member(*body, "message");
  return {code_from(code && *code ? **code : "", response.status),
          message && *message ? **message : fmt::format("the node answered {}", response.status)};
}

Task<void> drive(std::shared_ptr<H2Session> session) {
  const Error end = co_await session->run();
  log::info("node session ended", {log::Field(end)});
}

}  // namespace

Task<Result<JsonObject>> NodeSession::call(std::string name, JsonObject request, Deadline deadline) {
  CallRequest call;
  call.path = "/node/" + name;
  call.body = to_text(request);
  SPACE_CO_TRY(const CallResponse response, co_await session_->call(std::move(call), deadline));
  if (response.status != 200) co_return std::unexpected(refusal(response));
  co_return parse_json_object(response.body, "the node's answer");
}

Task<Result<OpeningTunnel>> NodeSession::open_tunnel(std::string sandbox, std::uint16_t port,
                                                     Deadline deadline) {
  return session_->open_tunnel(fmt::format("{}:{}", sandbox, port), deadline);
}

Task<Result<NodeSessionPtr>> NodeLink::welcome(std::shared_ptr<H2Session> session, NodeObserver& observer) {
  NodeSession unknown(session, {});
  SPACE_CO_TRY(JsonObject hello, co_await unknown.call("hello", {{"control", "space-control"}},
                                                       Deadline::after(hello_patience)));
  auto node = std::make_shared<NodeSession>(session, std::move(hello));
  SPACE_CO_CHECK(co_await observer.reconcile(node));
  if (node->closed()) co_return fail(Code::unavailable, "the node left again");
  co_return node;
}

Task<void> NodeLink::serve(StreamPtr transport, NodeObserver& observer) {
  auto session = H2Session::client(
      std::move(transport),
      {.streams_max = streams_max, .resets_per_second_max = node_session_resets_per_second_max});
  spawn(executor_, "node session", drive(session));
  const auto node = co_await welcome(session, observer);
  if (!node) {
    log::warn("node not accepted", {log::Field(node.error())});
    session->close("not accepted");
    co_return;
  }
  if (current_) current_->close("the node opened a newer session");
  current_ = *node;
  changed_.notify_all();
  log::info("node connected");
  co_await observer.follow(*node);
  (*node)->close("no longer followed");
  if (current_ == *node) current_.reset();
}

NodeSessionPtr NodeLink::current() const {
  return current_ && !current_->closed() ? current_ : nullptr;
}

Task<NodeSessionPtr> NodeLink::wait(Deadline deadline) {
  while (!current() && co_await changed_.wait(deadline)) {
  }
  co_return current();
}

}  // namespace space::control

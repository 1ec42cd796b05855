#include "sandboxd/netd_client.h"

#include "base/log.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis connect_limit = 1s;
constexpr Millis reconnect_pause = 100ms;
constexpr Millis tell_limit = 10s;
constexpr Millis leave_limit = 2s;
constexpr const char* silent = "the network gateway does not answer";

JsonObject attach_body(const std::string& id, const Egress& egress) {
  JsonObject body{{"id", id}, {"generation", egress.generation}};
  // Of the journal, and checked before it went there.
  if (auto policy = parse_json(egress.policy)) body["policy"] = *std::move(policy);
  if (!egress.pins_of.empty()) body["pins_of"] = egress.pins_of;
  return body;
}

Result<JsonObject> answer_of(const CallResponse& response) {
  SPACE_TRY(JsonObject body, parse_json_object(response.body, "the gateway's answer"));
  if (response.status == 200) return body;
  const auto message = text_member(body, "message");
  return std::unexpected(Error{code_of_http_status(response.status),
                               message && *message ? **message : std::string("the gateway refused")});
}

}  // namespace

NetdClient::NetdClient(Executor executor, std::string socket_path)
    : executor_(executor), socket_path_(std::move(socket_path)), connected_(executor) {}

NetdClient::~NetdClient() {
  if (session_) session_->close("the sandbox manager ends");
}

Task<void> NetdClient::run(std::function<bool(const std::string& id)> is_known) {
  while (true) {
    auto stream = co_await connect_unix(socket_path_, Deadline::after(connect_limit));
    if (!stream) {
      co_await sleep_for(reconnect_pause);
      continue;
    }
    const auto session = H2Session::client(*std::move(stream));
    session_ = session;
    spawn(executor_, "tell the gateway", settle(is_known));
    connected_.notify_all();
    const Error end = co_await session->run();
    session_.reset();
    log::warn("the network gateway is away", {log::Field(end)});
    co_await sleep_for(reconnect_pause);
  }
}

// Everything anew: it may be another process than before.
Task<void> NetdClient::settle(std::function<bool(const std::string& id)> is_known) {
  for (const auto& [id, attached] : attached_)
    if (!attached.telling) spawn(executor_, "attach again", tell_again(id));
  const auto listed = co_await call("list", {}, Deadline::after(tell_limit));
  if (!listed) co_return;
  const auto sandboxes = array_member(*listed, "sandboxes");
  if (!sandboxes || *sandboxes == nullptr) co_return;
  for (const Json& entry : **sandboxes) {
    const auto id =
        entry.is_object() ? require_text(entry.get_object(), "id") : fail(Code::internal, "no id");
    if (id && !attached_.contains(*id) && !is_known(*id)) co_await forget(*id);
  }
}

Task<void> NetdClient::tell_again(std::string id) {
  if (const auto told = co_await tell(id, Deadline::after(tell_limit)); !told)
    log::warn("sandbox has no network", {{"sandbox", id}, log::Field(told.error())});
}

Task<Result<JsonObject>> NetdClient::call(std::string name, JsonObject body, Deadline deadline) {
  return call_while(std::move(name), std::move(body), deadline, [] { return true; });
}

Task<Result<JsonObject>> NetdClient::call_while(std::string name, JsonObject body, Deadline deadline,
                                                std::function<bool()> wanted) {
  const CallRequest request{"POST", "/gateway/" + name, to_text(body)};
  while (wanted()) {
    const auto session = session_;
    if (!session || session->closed()) {
      if (!co_await connected_.wait(deadline)) co_return fail(Code::unavailable, "{}", silent);
      continue;
    }
    const auto response = co_await session->call(request, deadline);
    if (response) co_return answer_of(*response);
    if (!session->closed() || deadline.passed()) co_return fail(Code::unavailable, "{}", silent);
  }
  co_return fail(Code::conflict, "the sandbox left the network gateway");
}

Task<Result<void>> NetdClient::tell(std::string id, Deadline deadline) {
  const auto found = attached_.find(id);
  if (found == attached_.end()) co_return Result<void>();
  const std::uint64_t attempt = found->second.attempt = ++attempts_;
  const auto current = [this, id, attempt] {
    const auto entry = attached_.find(id);
    return entry != attached_.end() && entry->second.attempt == attempt;
  };
  found->second.telling = true;
  const auto told = co_await call_while("attach", attach_body(id, found->second.egress), deadline, current);
  if (current()) {
    attached_[id].telling = false;
    attached_[id].failure = told ? std::string() : told.error().message;
  }
  if (!told) co_return std::unexpected(told.error());
  co_return Result<void>();
}

Task<Result<void>> NetdClient::attach(std::string id, Egress egress, Deadline deadline) {
  attached_[id] = {.egress = std::move(egress)};
  return tell(std::move(id), deadline);
}

Task<Result<std::int64_t>> NetdClient::set_policy(std::string id, Egress egress, Deadline deadline) {
  const auto found = attached_.find(id);
  if (found == attached_.end()) co_return 0;
  const Egress before = std::exchange(found->second.egress, egress);
  const Egress named{egress.policy, egress.generation, ""};
  const auto answer = co_await call("policy", attach_body(id, named), deadline);
  if (answer) co_return require_int(*answer, "cut", 0, std::int64_t{1} << 53);
  const auto still = attached_.find(id);
  if (still != attached_.end() && still->second.egress.generation == egress.generation) {
    still->second.egress = before;
    // Without an answer it may be in force all the same.
    if (answer.error().code == Code::unavailable) spawn(executor_, "take a policy back", tell_again(id));
  }
  co_return std::unexpected(answer.error());
}

Task<Result<void>> NetdClient::detach(std::string id) {
  attached_.erase(id);
  if (session_) (void)co_await call("detach", {{"id", id}}, Deadline::after(leave_limit));
  co_return Result<void>();
}

Task<Result<void>> NetdClient::forget(std::string id) {
  attached_.erase(id);
  if (session_) (void)co_await call("forget", {{"id", id}}, Deadline::after(leave_limit));
  co_return Result<void>();
}

NetworkState NetdClient::state(const std::string& id) const {
  if (!session_) return {"down", silent};
  const auto found = attached_.find(id);
  if (found == attached_.end()) return {};
  return found->second.failure.empty() ? NetworkState{} : NetworkState{"down", found->second.failure};
}

}  // namespace space

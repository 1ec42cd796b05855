#include "control/fake_node.h"

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace space::control {
namespace {

http::ResponseHead plain(int status) {
  http::ResponseHead head;
  head.status = status;
  head.fields.add("Content-Type", "text/plain");
  return head;
}

}  // namespace

CallResponse FakeNode::ok(const JsonObject& body) {
  return {200, to_text(body)};
}

CallResponse FakeNode::refusal(const Error& error) {
  const int status = error.code == Code::not_found     ? 404
                     : error.code == Code::exhausted   ? 429
                     : error.code == Code::conflict    ? 409
                     : error.code == Code::unavailable ? 503
                                                       : 500;
  return {status, to_text(JsonObject{{"code", to_string(error.code)}, {"message", error.message}})};
}

Task<void> FakeNode::serve(StreamPtr transport) {
  H2Handlers handlers;
  handlers.call = [this](CallRequest request) { return call(std::move(request)); };
  handlers.connect = [this](std::string authority) { return connect(std::move(authority)); };
  auto session = H2Session::server(std::move(transport), std::move(handlers), {.streams_max = 4096});
  session_ = session;
  co_await session->run();
}

void FakeNode::drop_session() {
  if (session_) session_->close("the node's daemon was killed");
  changed_.notify_all();
}

void FakeNode::report(std::string id, State state, std::string reason) {
  sandboxes[id].state = state;
  sandboxes[id].reason = reason;
  events_.push_back(
      {{"sequence", events_.size() + 1}, {"id", id}, {"state", to_string(state)}, {"reason", reason}});
  break_streams(id);
  changed_.notify_all();
}

void FakeNode::say(std::string id, State state, bool idle) {
  events_.push_back({{"sequence", events_.size() + 1},
                     {"id", id},
                     {"state", to_string(state)},
                     {"idle", idle},
                     {"reason", ""}});
  changed_.notify_all();
}

void FakeNode::lose_events() {
  gap_ = true;
  changed_.notify_all();
}

void FakeNode::wake() {
  changed_.notify_all();
}

JsonObject FakeNode::object(const std::string& id) const {
  const Sandbox& sandbox = sandboxes.at(id);
  return {{"id", id},
          {"state", to_string(sandbox.state)},
          {"reason", sandbox.reason},
          {"idle", sandbox.idle},
          {"memory", sandbox.state == State::stopped  ? "none"
                     : sandbox.state == State::paused ? "hot"
                                                      : "live"},
          {"restored_from", sandbox.restored_from},
          {"generation_counter", 4},
          {"policy", sandbox.policy},
          {"head", sandbox.head},
          {"origin", nullptr},
          {"schedule", sandbox.schedule},
          {"recovery", sandbox.recovery},
          {"recovered", sandbox.recovered},
          {"disk_kept", sandbox.disk_kept},
          {"egress_generation", sandbox.egress_generation},
          {"network", network},
          {"awaits_init", sandbox.awaits_init}};
}

Task<CallResponse> FakeNode::call(CallRequest request) {
  const auto body = parse_json_object(request.body, "request");
  if (!body) co_return refusal(body.error());
  if (request.path == "/node/hello") co_return ok({{"node_id", "n1"}, {"accelerator", "tcg"}});
  if (request.path == "/node/sandbox/create") co_return co_await create(*body);
  if (request.path == "/node/sandbox/delete") co_return remove(*body);
  for (const char* verb : {"pause", "resume", "stop"})
    if (request.path == fmt::format("/node/sandbox/{}", verb)) co_return co_await move(verb, *body);
  if (request.path.starts_with("/node/pool/")) co_return co_await pool(request.path, *body);
  if (request.path == "/node/sandbox/list") co_return list();
  if (request.path == "/node/events") co_return co_await events(*body);
  if (request.path == "/node/template/remove") {
    templates.erase(*require_text(*body, "digest"));
    co_return ok({});
  }
  if (request.path == "/node/template/import") {
    templates.insert(*require_text(*body, "digest"));
    co_return ok({{"name", "base"}, {"shape", {{"vcpus", 1}, {"memory_mib", 512}, {"disk_mib", 4096}}}});
  }
  if (constexpr std::string_view egress_path = "/node/sandbox/egress"; request.path.starts_with(egress_path))
    co_return co_await egress(request.path.substr(egress_path.size()), *body);
  if (request.path == "/node/sandbox/snapshot") co_return co_await take_snapshot(*body);
  for (const char* call :
       {"snapshot/remove", "snapshot/set", "rollback", "schedule", "recovery", "recover", "history", "diff"})
    if (request.path == fmt::format("/node/sandbox/{}", call)) co_return co_await lineage(call, *body);
  co_return observe(request.path, *body);
}

CallResponse FakeNode::observe(const std::string& path, const JsonObject& body) {
  if (path == "/node/stats") return stats_of_all(body);
  if (path.starts_with("/node/snapshot/")) return published_call(path, body);
  const std::string id = require_text(body, "id").value_or("");
  if (path == "/node/sandbox/stats") return ok(stats[id]);
  if (!sandboxes.contains(id) && !path.ends_with("/logs") && !path.ends_with("/isolation") &&
      !path.ends_with("/activity"))
    return refusal({Code::not_found, "not here"});
  if (path == "/node/sandbox/get") return ok(object(id));
  if (path == "/node/sandbox/snapshots" || path == "/node/sandbox/policy") return keep(path, body);
  if (path == "/node/sandbox/isolation") return ok(isolation[id]);
  if (path == "/node/sandbox/activity") {
    called.push_back(id);
    return ok({});
  }
  if (path == "/node/sandbox/logs") {
    log_request = body;
    return ok({{"entries", logs[id]}, {"next", 0}});
  }
  return refusal({Code::not_found, path});
}

CallResponse FakeNode::keep(const std::string& path, const JsonObject& body) {
  const std::string id = *require_text(body, "id");
  Sandbox& sandbox = sandboxes.at(id);
  if (path == "/node/sandbox/snapshots") return ok({{"snapshots", sandbox.snapshots}});
  if (path == "/node/sandbox/policy") {
    for (const char* key : {"idle_pause_s", "hot_keep_s"})
      if (body.contains(key)) sandbox.policy[key] = body.at(key);
    return ok(object(id));
  }
  return refusal({Code::not_found, path});
}

Task<CallResponse> FakeNode::move(std::string verb, JsonObject body) {
  const std::string id = *require_text(body, "id");
  moves.push_back(verb + " " + id);
  if (!sandboxes.contains(id)) co_return refusal({Code::not_found, "not here"});
  if (move_error) co_return refusal(*move_error);
  const State goal = verb == "resume" ? State::running : verb == "pause" ? State::paused : State::stopped;
  if (sandboxes.at(id).state != goal) {
    if (!recovers(sandboxes.at(id).state))
      sandboxes.at(id).state = verb == "resume" ? State::resuming : State::pausing;
    if (verb != "resume") break_streams(id);
    while (moves_hang) co_await changed_.wait();
  }
  const auto found = sandboxes.find(id);
  if (found == sandboxes.end()) co_return refusal({Code::conflict, "deleted"});
  found->second.state = goal;
  found->second.idle = false;
  found->second.awaits_init = false;
  if (verb == "resume") found->second.resumed_with = std::move(body);
  changed_.notify_all();
  co_return ok(object(id));
}

Task<CallResponse> FakeNode::pool(std::string path, JsonObject body) {
  if (path == "/node/pool/list")
    co_return ok({{"pools", JsonArray{JsonObject{{"template", std::string(64, 'a')},
                                                 {"vcpus", 1},
                                                 {"memory_mib", 512},
                                                 {"disk_mib", 4096},
                                                 {"target", 2},
                                                 {"parked", parked.size()},
                                                 {"filling", 0},
                                                 {"hits", 3},
                                                 {"misses", 1},
                                                 {"checkpoint", true}}}}});
  pool_calls.push_back(std::move(body));
  if (path == "/node/pool/set") co_return ok({});
  while (pool_hangs) co_await changed_.wait();
  if (parked.empty()) co_return refusal({Code::not_found, "none parked"});
  const std::string id = parked.back();
  parked.pop_back();
  co_return ok({{"id", id}});
}

CallResponse FakeNode::stats_of_all(const JsonObject& body) const {
  JsonArray answers;
  for (const Json& id : body.at("ids").as_array())
    if (const auto found = stats.find(std::string(id.as_string())); found != stats.end()) {
      JsonObject entry = found->second;
      entry["id"] = id;
      answers.push_back(std::move(entry));
    }
  return ok({{"sandboxes", std::move(answers)}});
}

Task<CallResponse> FakeNode::create(JsonObject body) {
  const std::string id = *require_text(body, "id");
  created.push_back(id);
  if (create_error) co_return refusal(*create_error);
  if (const auto error = refuse_create ? refuse_create(created.size() - 1) : std::nullopt)
    co_return refusal(*error);
  if (const auto error = refuses_from(body)) co_return refusal(*error);
  while (create_hangs) co_await changed_.wait();
  sandboxes[id] = {State::running, "", std::move(body)};
  sandboxes[id].egress = sandboxes[id].request.at("egress");
  sandboxes[id].egress_generation = *require_int(sandboxes[id].request, "egress_generation", 0, INT64_MAX);
  if (const auto policy = object_member(sandboxes[id].request, "policy"); policy && *policy)
    for (const auto& [key, value] : **policy) sandboxes[id].policy[key] = value;
  if (const Json* schedule = sandboxes[id].request.if_contains("schedule"))
    sandboxes[id].schedule = *schedule;
  if (const auto recovery = text_member(sandboxes[id].request, "recovery"); recovery && *recovery)
    sandboxes[id].recovery = **recovery;
  co_return ok(object(id));
}

CallResponse FakeNode::remove(const JsonObject& body) {
  const std::string id = *require_text(body, "id");
  if (sandboxes.erase(id) > 0) deleted.push_back(id);
  break_streams(id);
  return ok({});
}

CallResponse FakeNode::list() const {
  JsonArray all;
  for (const auto& [id, sandbox] : sandboxes) all.push_back(object(id));
  return ok({{"sandboxes", std::move(all)}});
}

Task<CallResponse> FakeNode::events(JsonObject body) {
  const auto after = static_cast<std::size_t>(*require_int(body, "after", 0, 1'000'000));
  while (events_.size() <= after && !session_->closed() && !gap_)
    co_await changed_.wait(Deadline::after(Millis(1000)));
  JsonArray news;
  for (std::size_t i = after; i < events_.size(); ++i) news.push_back(events_[i]);
  co_return ok({{"events", std::move(news)}, {"next", events_.size()}, {"gap", std::exchange(gap_, false)}});
}

void FakeNode::break_streams(const std::string& id) {
  const auto [first, last] = connections_.equal_range(id);
  for (auto it = first; it != last; ++it) it->second->abort();
}

Task<Result<H2Handlers::Tunnel>> FakeNode::connect(std::string authority) {
  const std::string id = authority.substr(0, authority.find(':'));
  const std::string port = authority.substr(authority.find(':') + 1);
  if (!sandboxes.contains(id)) co_return fail(Code::not_found, "not running here");
  while (sandboxes.contains(id) && in_transition(sandboxes.at(id).state)) co_await changed_.wait();
  const auto found = sandboxes.find(id);
  if (found == sandboxes.end()) co_return fail(Code::not_found, "not running here");
  if (found->second.idle) {
    found->second.idle = false;
    found->second.state = State::running;
    woken.push_back(id);
  }
  if (!serves(found->second.state)) co_return fail(Code::unavailable, "it does not run");
  if (port == "9999") co_return fail(Code::unavailable, "connection refused");
  if (port == "7000" && refusals_left > 0) {
    --refusals_left;
    co_return fail(Code::unavailable, "connection refused");
  }
  co_return H2Handlers::Tunnel([this, id](StreamPtr stream) { return tunnel(std::move(stream), id); });
}

Task<void> FakeNode::tunnel(StreamPtr stream, std::string id) {
  ++tunnels_open;
  {
    http::ServerConnection connection(std::move(stream));
    const auto place = connections_.emplace(id, &connection);
    const auto head = co_await connection.read_request(Deadline::after(Millis(10'000)));
    if (head && *head) co_await answer(connection, **head, id);
    connections_.erase(place);
  }
  --tunnels_open;
}

Task<bool> FakeNode::answer(http::ServerConnection& connection, http::RequestHead head, std::string id) {
  if (head.path() == "/who") {
    const std::string token(head.fields.get("X-Access-Token").value_or(""));
    co_return (co_await connection.respond(plain(200), id + " " + token)).has_value();
  }
  if (head.path() == "/files" && head.method != "POST")
    co_return (co_await connection.respond(plain(200), id)).has_value();
  if (head.path() == "/echo" || head.path() == "/files") {
    http::ResponseHead echo = plain(200);
    echo.fields.add("X-Served-By", id);
    co_await connection.start_response(std::move(echo));
    std::vector<std::byte> piece(32 * 1024);
    while (true) {
      const auto n = co_await connection.body().read(piece);
      if (!n) co_return false;
      if (*n == 0) break;
      if (!co_await connection.write_body(std::span(piece).first(*n))) co_return false;
    }
    co_return (co_await connection.end_response()).has_value();
  }
  if (head.path() == "/forever") {
    co_await connection.start_response(plain(200));
    co_await connection.write_body(as_bytes("first"));
    co_await connection.peer_gone();
    co_return false;
  }
  if (head.path() == "/early") co_return (co_await connection.respond(plain(413), "too much")).has_value();
  if (head.wants_upgrade()) {
    http::ResponseHead switching;
    switching.status = 101;
    switching.fields.add("Connection", "Upgrade");
    switching.fields.add("Upgrade", "websocket");
    co_await connection.start_response(switching);
    auto raw = connection.release();
    std::vector<std::byte> piece(1024);
    while (true) {
      const auto n = co_await raw->read(piece);
      if (!n || *n == 0) break;
      if (!co_await raw->write(std::span(piece).first(*n))) break;
    }
    co_await raw->finish();
    co_return false;
  }
  co_return (co_await connection.respond(plain(404), "nothing here")).has_value();
}

}  // namespace space::control

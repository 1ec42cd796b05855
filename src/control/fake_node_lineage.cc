// FakeNode: what becomes of snapshots, rollback, recovery, and what is told of it.
#include <algorithm>

#include "control/fake_node.h"

namespace space::control {
namespace {

JsonArray::iterator find_snapshot(JsonArray& snapshots, std::int64_t number) {
  return std::ranges::find_if(snapshots,
                              [&](const Json& each) { return each.get_object().at("number") == number; });
}

}  // namespace

void FakeNode::crash(std::string id, std::string cause) {
  sandboxes.at(id).awaits_init = true;
  report(std::move(id), State::recovering, std::move(cause));
}

Task<CallResponse> FakeNode::lineage(std::string path, JsonObject body) {
  lineage_calls.emplace_back(path, body);
  const std::string id = require_text(body, "id").value_or("");
  const auto found = sandboxes.find(id);
  if (found == sandboxes.end()) co_return refusal({Code::not_found, "not here"});
  Sandbox& sandbox = found->second;
  if (path == "rollback") co_return co_await roll_back(std::move(body));
  if (path.starts_with("snapshot/")) co_return snapshot_number(path, body);
  if (path == "history") co_return ok(history);
  if (path == "diff") co_return ok(difference);
  if (path == "schedule") sandbox.schedule = body.at("schedule");
  if (path == "recovery") sandbox.recovery = *require_text(body, "policy");
  if (path == "recover" && sandbox.disk_kept) {
    sandbox.disk_kept = false;
    sandbox.reason = "";
    sandbox.awaits_init = true;
    sandbox.state = State::recovering;
  }
  co_return ok(object(id));
}

CallResponse FakeNode::snapshot_number(const std::string& call, const JsonObject& body) {
  JsonArray& snapshots = sandboxes.at(*require_text(body, "id")).snapshots;
  const auto found = find_snapshot(snapshots, *require_int(body, "number", 1, INT64_MAX));
  if (found == snapshots.end()) return refusal({Code::not_found, "there is no such snapshot"});
  JsonObject& snapshot = found->get_object();
  if (call == "snapshot/remove") {
    if (!snapshot.at("used_by").as_array().empty())
      return refusal({Code::conflict, "the snapshot is needed by another sandbox. Delete that one first"});
    snapshots.erase(found);
    return ok({});
  }
  if (body.contains("name")) snapshot["name"] = body.at("name").is_null() ? Json("") : body.at("name");
  if (body.contains("pinned")) snapshot["pinned"] = body.at("pinned");
  return ok(snapshot);
}

Task<CallResponse> FakeNode::roll_back(JsonObject body) {
  const std::string id = *require_text(body, "id");
  Sandbox& sandbox = sandboxes.at(id);
  moves.push_back("rollback " + id);
  if (loses_rollbacks) {
    drop_session();
    co_return refusal({Code::unavailable, "it is going"});
  }
  if (move_error) co_return refusal(*move_error);
  const std::int64_t target = body.contains("undo") ? sandbox.undo : body.at("number").as_int64();
  if (target == 0 || find_snapshot(sandbox.snapshots, target) == sandbox.snapshots.end())
    co_return refusal({Code::not_found, "there is no such snapshot"});
  sandbox.undo = ++sandbox.last_snapshot;
  sandbox.snapshots.push_back(
      snapshot_object(static_cast<std::size_t>(sandbox.undo), "full", "before_rollback"));
  sandbox.head = target;
  sandbox.state = State::resuming;
  sandbox.disk_kept = false;
  break_streams(id);
  while (moves_hang) co_await changed_.wait();
  const auto found = sandboxes.find(id);
  if (found == sandboxes.end()) co_return refusal({Code::conflict, "deleted"});
  found->second.state = State::running;
  found->second.resumed_with = std::move(body);
  changed_.notify_all();
  co_return ok({{"sandbox", object(id)}, {"undo", found->second.undo}});
}

}  // namespace space::control

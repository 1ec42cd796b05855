// FakeNode: snapshots that others begin as.
#include "control/fake_node.h"

namespace space::control {
namespace {

SnapshotId read_id(const JsonObject& object) {
  return {require_text(object, "sandbox").value_or(""),
          static_cast<std::uint64_t>(require_int(object, "number", 0, INT64_MAX).value_or(0))};
}

}  // namespace

JsonObject FakeNode::snapshot_object(std::size_t number, std::string_view kind, std::string_view cause) {
  return {{"number", number},
          {"parent", number - 1},
          {"kind", kind},
          {"cause", cause},
          {"created_at", "2026-01-31T12:00:00.000Z"},
          {"quiesced", true},
          {"name", ""},
          {"pinned", false},
          {"published", cause == "published"},
          {"on_lineage", true},
          {"used_by", JsonArray()},
          {"memory_bytes", 1000},
          {"dirty_bytes", 100},
          {"written_bytes", 90},
          {"stop_window_us", 5000}};
}

Task<CallResponse> FakeNode::take_snapshot(JsonObject body) {
  auto made = make_snapshot(body);
  while (snapshot_hangs) co_await changed_.wait();
  co_return made;
}

CallResponse FakeNode::make_snapshot(const JsonObject& body) {
  const std::string id = require_text(body, "id").value_or("");
  if (!sandboxes.contains(id)) return refusal({Code::not_found, "not here"});
  Sandbox& sandbox = sandboxes.at(id);
  snapshot_calls.push_back(body);
  if (snapshot_error) return refusal(*snapshot_error);
  if (snapshot_refusals > 0) {
    --snapshot_refusals;
    return refusal({Code::unavailable, "the guest did not stand still: try again"});
  }
  const bool has_memory = sandbox.state != State::stopped;
  const std::string cause = text_member(body, "cause").value_or(std::nullopt).value_or("asked");
  const bool to_begin_as = cause != "asked";
  const std::string kind = text_member(body, "kind").value_or(std::nullopt).value_or("full");
  if (!to_begin_as && kind == "full" && !has_memory)
    return refusal({Code::conflict, "it has no memory to keep"});
  // One that is cold is its newest snapshot.
  if (to_begin_as && sandbox.cold && !sandbox.snapshots.empty()) {
    JsonObject& head = sandbox.snapshots.back().as_object();
    if (cause == "published")
      published.insert({id, static_cast<std::uint64_t>(head.at("number").as_int64())});
    return ok(head);
  }
  const std::int64_t number = ++sandbox.last_snapshot;
  JsonObject made =
      snapshot_object(static_cast<std::size_t>(number), to_begin_as && !has_memory ? "disk" : kind, cause);
  made["number"] = number;
  for (const char* key : {"name", "pinned"})
    if (body.contains(key)) made[key] = body.at(key);
  sandbox.snapshots.push_back(made);
  const SnapshotId made_id{id, static_cast<std::uint64_t>(number)};
  held.insert(made_id);
  if (cause == "published") published.insert(made_id);
  return ok(made);
}

// What a create begins as is on the pool, or the create is refused.
std::optional<Error> FakeNode::refuses_from(const JsonObject& body) const {
  const auto from = object_member(body, "from");
  if (!from || *from == nullptr || held.contains(read_id(**from))) return std::nullopt;
  return Error{Code::not_found, "no such snapshot"};
}

CallResponse FakeNode::published_call(const std::string& path, const JsonObject& body) {
  if (path == "/node/snapshot/published") {
    ++published_asked;
    JsonArray all;
    for (const SnapshotId& id : published)
      all.push_back(JsonObject{{"sandbox", id.sandbox}, {"number", id.number}});
    return ok({{"snapshots", std::move(all)}});
  }
  const SnapshotId id = read_id(body);
  withdrawn.push_back(id);
  if (published.erase(id) == 0) return refusal({Code::not_found, "not published"});
  held.erase(id);
  return ok({});
}

}  // namespace space::control

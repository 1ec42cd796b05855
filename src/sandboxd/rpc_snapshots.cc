// The calls about what is kept of a sandbox: its snapshots, going back to one, and its history.
#include <algorithm>

#include "sandboxd/rpc.h"
#include "sandboxd/rpc_json.h"
#include "sandboxd/snapshot_size.h"

namespace space {
namespace {

using namespace std::chrono_literals;

// Past it a call answers, and what it began goes on.
constexpr Millis snapshot_limit = 5min;
constexpr Millis remove_limit = 30s;
constexpr Millis measure_limit = 20s;
constexpr std::size_t name_bytes_max = 64;
// A boot, and a walk over two disks.
constexpr Millis diff_limit = 3min;
constexpr std::int64_t diff_changes = 1000, diff_changes_max = 10'000;

Result<std::uint64_t> parse_number(const JsonObject& body) {
  SPACE_TRY(const std::int64_t number, require_int(body, "number", 1, rpc_integer_max));
  return static_cast<std::uint64_t>(number);
}

Result<void> check_name(std::string_view name) {
  const bool plain = std::ranges::all_of(name, [](char c) { return c > ' ' && c < 0x7f; });
  if (plain && name.size() <= name_bytes_max) return {};
  return fail(Code::invalid_argument, "'name' must be at most {} bytes of ASCII without blanks",
              name_bytes_max);
}

// "cause" of those that a client may give.
Result<SnapshotCause> parse_cause(const std::string& text) {
  const auto cause = snapshot_cause_from(text);
  if (cause == SnapshotCause::asked || cause == SnapshotCause::fork || cause == SnapshotCause::published)
    return *cause;
  return fail(Code::invalid_argument, "'cause' must be asked, fork or published");
}

Result<SnapshotWish> parse_wish(const JsonObject& body) {
  SnapshotWish wish;
  SPACE_TRY(const auto kind, text_member(body, "kind"));
  const auto known = snapshot_kind_from(kind.value_or("full"));
  if (!known) return fail(Code::invalid_argument, "'kind' must be full or disk");
  wish.kind = *known;
  SPACE_TRY(const auto cause, text_member(body, "cause"));
  SPACE_TRY(wish.cause, parse_cause(cause.value_or("asked")));
  SPACE_TRY(auto name, text_member(body, "name"));
  wish.name = std::move(name).value_or("");
  SPACE_CHECK(check_name(wish.name));
  SPACE_TRY(const auto pinned, bool_member(body, "pinned"));
  wish.pinned = pinned.value_or(false);
  return wish;
}

// A name of null takes the name away.
Result<SnapshotEdit> parse_edit(const JsonObject& body) {
  SnapshotEdit edit;
  SPACE_TRY(edit.name, text_member(body, "name"));
  if (edit.name) SPACE_CHECK(check_name(*edit.name));
  if (const auto* name = body.if_contains("name"); name != nullptr && name->is_null()) edit.name = "";
  SPACE_TRY(edit.pinned, bool_member(body, "pinned"));
  return edit;
}

// The one that `member` names.
Result<SnapshotRecord> named_snapshot(const Sandbox& sandbox, const JsonObject& body, const char* member) {
  SPACE_TRY(const std::int64_t number, require_int(body, member, 1, rpc_integer_max));
  for (const SnapshotRecord& snapshot : sandbox.snapshots())
    if (snapshot.number == static_cast<std::uint64_t>(number)) return snapshot;
  return fail(Code::not_found, "sandbox {} has no snapshot {}", sandbox.record().id, number);
}

JsonObject to_json(const DiskDiff& diff) {
  JsonArray changes;
  for (const DiskChange& change : diff.changes)
    changes.push_back(JsonObject{
        {"path", change.path}, {"change", change.change}, {"type", change.type}, {"size", change.size}});
  return {{"changes", std::move(changes)}, {"truncated", diff.truncated}};
}

JsonArray to_json_array(Manager& manager, const Sandbox& sandbox) {
  JsonArray array;
  for (const SnapshotRecord& snapshot : sandbox.snapshots())
    array.push_back(to_json(sandbox, snapshot, manager.shelf().used_by(snapshot.id())));
  return array;
}

}  // namespace

NodeRpc::Answer NodeRpc::snapshot(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(SnapshotWish wish, parse_wish(body));
  SPACE_CO_TRY(const SnapshotRecord taken,
               co_await sandbox->snapshot(std::move(wish), Deadline::after(snapshot_limit)));
  co_return to_json(*sandbox, taken, parts_.manager.shelf().used_by(taken.id()));
}

// What cannot be measured in time is left out.
NodeRpc::Answer NodeRpc::snapshots(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(const auto measure, bool_member(body, "measure"));
  JsonArray array = to_json_array(parts_.manager, *sandbox);
  if (!measure.value_or(false)) co_return JsonObject{{"snapshots", std::move(array)}};
  const Deadline deadline = Deadline::after(measure_limit);
  for (Json& snapshot : array) {
    const auto number = snapshot.at("number").to_number<std::uint64_t>();
    const auto bytes = co_await exclusive_bytes_of(parts_.noded, {sandbox->record().id, number}, deadline);
    if (bytes) snapshot.as_object()["exclusive_bytes"] = *bytes;
  }
  co_return JsonObject{{"snapshots", std::move(array)}};
}

NodeRpc::Answer NodeRpc::remove_snapshot(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(const std::uint64_t number, parse_number(body));
  SPACE_CO_CHECK(co_await sandbox->remove_snapshot(number, Deadline::after(remove_limit)));
  co_return JsonObject();
}

NodeRpc::Answer NodeRpc::set_snapshot(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(const std::uint64_t number, parse_number(body));
  SPACE_CO_TRY(SnapshotEdit edit, parse_edit(body));
  SPACE_CO_TRY(const SnapshotRecord changed, sandbox->edit_snapshot(number, std::move(edit)));
  co_return to_json(*sandbox, changed, parts_.manager.shelf().used_by(changed.id()));
}

NodeRpc::Answer NodeRpc::withdraw_snapshot(JsonObject body) {
  SPACE_CO_TRY(SnapshotId snapshot, parse_snapshot_id(body));
  SPACE_CO_CHECK(co_await parts_.manager.shelf().withdraw(std::move(snapshot)));
  co_return JsonObject();
}

NodeRpc::Answer NodeRpc::published_snapshots(JsonObject) {
  JsonArray snapshots;
  for (const SnapshotId& snapshot : parts_.manager.shelf().published())
    snapshots.push_back(to_json(snapshot));
  co_return JsonObject{{"snapshots", std::move(snapshots)}};
}

NodeRpc::Answer NodeRpc::rollback(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(const auto undo, bool_member(body, "undo"));
  std::optional<std::uint64_t> number;
  if (!undo.value_or(false)) {
    SPACE_CO_TRY(number, parse_number(body));
  } else if (body.contains("number")) {
    co_return fail(Code::invalid_argument, "either 'number' or 'undo'");
  }
  SPACE_CO_TRY(GuestInit init, parse_guest_init(body));
  SPACE_CO_TRY(const std::uint64_t left,
               co_await sandbox->rollback(number, std::move(init), Deadline::after(snapshot_limit)));
  co_return JsonObject{{"sandbox", to_json(*sandbox)}, {"undo", left}};
}

NodeRpc::Answer NodeRpc::history(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  const SandboxRecord& record = sandbox->record();
  SPACE_CO_TRY(const std::vector<HistoryRow> rows, sandbox->history());
  JsonArray events, forks;
  for (const HistoryRow& row : rows) events.push_back(to_json(row));
  for (const auto& other : parts_.manager.list())
    if (const auto& origin = other->record().origin; origin && origin->sandbox == record.id)
      forks.push_back(JsonObject{{"id", other->record().id}, {"number", origin->number}});
  co_return JsonObject{{"head", record.head == 0 ? Json(nullptr) : Json(record.head)},
                       {"origin", record.origin ? Json(to_json(*record.origin)) : Json(nullptr)},
                       {"snapshots", to_json_array(parts_.manager, *sandbox)},
                       {"forks", std::move(forks)},
                       {"events", std::move(events)}};
}

NodeRpc::Answer NodeRpc::diff(JsonObject body) {
  SPACE_CO_TRY(const auto sandbox, find_sandbox(parts_.manager, body));
  SPACE_CO_TRY(const SnapshotRecord from, named_snapshot(*sandbox, body, "from"));
  SPACE_CO_TRY(const SnapshotRecord to, named_snapshot(*sandbox, body, "to"));
  SPACE_CO_TRY(const auto limit, int_member(body, "limit", 1, diff_changes_max));
  DiskDiff diff;
  if (from.number != to.number) {
    const auto first = parts_.manager.shelf().lend(from.id());
    const auto second = parts_.manager.shelf().lend(to.id());
    DiskDiffWish wish{.disks = {from.sandbox, from.number, to.number},
                      .team = sandbox->record().team,
                      .template_digest = from.template_digest,
                      .disk_mib = from.shape.disk_mib,
                      .accelerator = co_await parts_.accelerator.get(),
                      .limit = static_cast<std::size_t>(limit.value_or(diff_changes))};
    SPACE_CO_TRY(diff, co_await parts_.manager.diffs().run(std::move(wish), Deadline::after(diff_limit)));
  }
  JsonObject answer = to_json(diff);
  if (!from.quiesced || !to.quiesced) answer["approximate"] = true;
  co_return answer;
}

}  // namespace space

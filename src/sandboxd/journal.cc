#include "sandboxd/journal.h"

#include <array>

#include "sandboxd/journal_schema.h"

namespace space {
namespace {

std::int64_t milliseconds(Wall time) {
  return time.time_since_epoch().count();
}

std::optional<std::int64_t> milliseconds(const std::optional<Wall>& time) {
  if (!time) return std::nullopt;
  return time->time_since_epoch().count();
}

std::optional<std::uint64_t> number_of(const Statement& row, int column) {
  const auto number = row.optional_integer(column);
  if (!number) return std::nullopt;
  return static_cast<std::uint64_t>(*number);
}

std::optional<SnapshotId> snapshot_id_of(const Statement& row, int column) {
  auto sandbox = row.optional_text(column);
  if (!sandbox) return std::nullopt;
  return SnapshotId{*std::move(sandbox), number_of(row, column + 1).value_or(0)};
}

std::optional<std::string> sandbox_of(const std::optional<SnapshotId>& id) {
  if (!id) return std::nullopt;
  return id->sandbox;
}
std::optional<std::uint64_t> number_of(const std::optional<SnapshotId>& id) {
  if (!id) return std::nullopt;
  return id->number;
}

std::unexpected<Error> unknown(const char* what, std::string_view where) {
  return fail(Code::internal, "the journal holds an unknown {} for {}", what, where);
}

// In the order of `sandbox_columns`.
constexpr const char* sandbox_columns =
    "id, generation, template, vcpus, memory_mib, disk_mib, state, wanted, reason, started_at, wake_at, team,"
    " accelerator, memory, idle, last_snapshot, source, source_number, counter, idle_pause_s, hot_keep_s,"
    " compared_with, head, undo, disk_from_head, origin, origin_number, schedule, recovery, recovered,"
    " egress, egress_generation";

// What is kept as texts of other parts.
Result<void> read_policies(const Statement& row, SandboxRecord& record) {
  if (const auto schedule = row.optional_text(27)) {
    SPACE_TRY(const Json value, parse_json(*schedule));
    SPACE_TRY(record.schedule, schedule_from_json(value));
  }
  const auto recovery = recovery_policy_from(row.text(28));
  if (!recovery) return unknown("recovery policy", record.id);
  record.recovery = *recovery;
  if (const auto recovered = row.optional_text(29)) {
    SPACE_TRY(const JsonObject object, parse_json_object(*recovered, "recovery"));
    SPACE_TRY(record.recovered, recovery_note_from_json(object));
  }
  return {};
}

Result<SandboxRecord> record_of(const Statement& row) {
  SandboxRecord record;
  record.id = row.text(0);
  record.generation = row.integer(1);
  record.template_digest = row.text(2);
  record.shape = {row.integer(3), row.integer(4), row.integer(5)};
  const auto state = state_from(row.text(6));
  const auto wanted = wanted_from(row.text(7));
  const auto memory = memory_place_from(row.text(13));
  if (!state || !wanted || !memory) return unknown("state", record.id);
  record.state = *state;
  record.wanted = *wanted;
  record.memory = *memory;
  record.reason = row.text(8);
  if (const auto started = row.optional_integer(9)) record.started_at = Wall(Millis(*started));
  if (const auto wake = row.optional_integer(10)) record.wake_at = Wall(Millis(*wake));
  record.team = row.text(11);
  record.accelerator = row.text(12) == "kvm" ? MachineAccelerator::kvm : MachineAccelerator::tcg;
  record.idle = row.integer(14) != 0;
  record.last_snapshot = static_cast<std::uint64_t>(row.integer(15));
  record.restored_from = snapshot_id_of(row, 16);
  record.counter = row.integer(18);
  record.policy = {row.optional_integer(19), row.optional_integer(20)};
  record.compared_with = static_cast<std::uint64_t>(row.integer(21));
  record.head = static_cast<std::uint64_t>(row.integer(22));
  record.undo = static_cast<std::uint64_t>(row.integer(23));
  record.disk_from_head = row.integer(24) != 0;
  record.origin = snapshot_id_of(row, 25);
  SPACE_CHECK(read_policies(row, record));
  record.egress = row.text(30);
  record.egress_generation = row.integer(31);
  return record;
}

std::optional<std::string> schedule_text(const SandboxRecord& record) {
  if (!record.schedule) return std::nullopt;
  return to_text(to_json(*record.schedule));
}

std::optional<std::string> recovered_text(const SandboxRecord& record) {
  if (!record.recovered) return std::nullopt;
  return to_text(to_json(*record.recovered));
}

constexpr const char* select_snapshots =
    "SELECT sandbox, number, parent, created_at, quiesced, memory_bytes, dirty_bytes, written_bytes,"
    " stop_window_us, kind, cause, name, pinned, published, team, template, vcpus, memory_mib, disk_mib"
    " FROM snapshots";

Result<SnapshotRecord> snapshot_of(const Statement& row) {
  SnapshotRecord snapshot;
  snapshot.sandbox = row.text(0);
  snapshot.number = static_cast<std::uint64_t>(row.integer(1));
  snapshot.parent = number_of(row, 2);
  snapshot.created_at = Wall(Millis(row.integer(3)));
  snapshot.quiesced = row.integer(4) != 0;
  snapshot.memory_bytes = row.integer(5);
  snapshot.dirty_bytes = row.integer(6);
  snapshot.written_bytes = row.integer(7);
  snapshot.stop_window_us = row.integer(8);
  const auto kind = snapshot_kind_from(row.text(9));
  const auto cause = snapshot_cause_from(row.text(10));
  if (!kind || !cause) return unknown("kind of snapshot", snapshot.sandbox);
  snapshot.kind = *kind;
  snapshot.cause = *cause;
  snapshot.name = row.text(11);
  snapshot.pinned = row.integer(12) != 0;
  snapshot.published = row.integer(13) != 0;
  snapshot.team = row.text(14);
  snapshot.template_digest = row.text(15);
  snapshot.shape = {row.integer(16), row.integer(17), row.integer(18)};
  return snapshot;
}

Result<HistoryRow> history_row_of(const Statement& row) {
  HistoryRow result;
  result.sandbox = row.text(0);
  result.at = Wall(Millis(row.integer(1)));
  const auto kind = history_kind_from(row.text(2));
  if (!kind) return unknown("kind of event", result.sandbox);
  result.kind = *kind;
  result.number = number_of(row, 3);
  result.other = row.optional_text(4);
  result.text = row.text(5);
  return result;
}

// All rows of a query.
template <class T>
Result<std::vector<T>> all(Statement& select, Result<T> (*read)(const Statement&)) {
  std::vector<T> rows;
  while (true) {
    SPACE_TRY(const bool found, select.step());
    if (!found) return rows;
    SPACE_TRY(T row, read(select));
    rows.push_back(std::move(row));
  }
}

Result<void> put_snapshot(Sqlite& db, const SnapshotRecord& s) {
  SPACE_TRY(Statement insert,
            db.prepare("INSERT OR REPLACE INTO snapshots(sandbox, number, parent, created_at, quiesced,"
                       " memory_bytes, dirty_bytes, written_bytes, stop_window_us, kind, cause, name, pinned,"
                       " published, team, template, vcpus, memory_mib, disk_mib)"
                       " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  return insert
      .bind(s.sandbox, s.number, s.parent, milliseconds(s.created_at), s.quiesced, s.memory_bytes,
            s.dirty_bytes, s.written_bytes, s.stop_window_us, to_string(s.kind), to_string(s.cause), s.name,
            s.pinned, s.published, s.team, s.template_digest, s.shape.vcpus, s.shape.memory_mib,
            s.shape.disk_mib)
      .run();
}

Result<void> put_history(Sqlite& db, const HistoryRow& r) {
  SPACE_TRY(Statement insert, db.prepare("INSERT INTO history(sandbox, at, kind, number, other, text)"
                                         " VALUES (?,?,?,?,?,?)"));
  SPACE_CHECK(insert.bind(r.sandbox, milliseconds(r.at), to_string(r.kind), r.number, r.other, r.text).run());
  SPACE_TRY(Statement trim, db.prepare("DELETE FROM history WHERE sandbox=?1 AND sequence <="
                                       " (SELECT sequence FROM history WHERE sandbox=?1"
                                       " ORDER BY sequence DESC LIMIT 1 OFFSET ?2)"));
  return trim.bind(r.sandbox, history_rows_max).run();
}

constexpr std::array<std::string_view, 4> history_kinds = {"snapshot_removed", "rollback", "fork",
                                                           "recovery"};

}  // namespace

std::string_view to_string(HistoryKind kind) {
  return history_kinds[static_cast<std::size_t>(kind)];
}

std::optional<HistoryKind> history_kind_from(std::string_view name) {
  for (std::size_t i = 0; i < history_kinds.size(); ++i)
    if (history_kinds[i] == name) return static_cast<HistoryKind>(i);
  return std::nullopt;
}

Result<Journal> Journal::open(const std::string& path) {
  SPACE_TRY(Sqlite db, Sqlite::open(path));
  if (auto migrated = migrate_journal(db); !migrated)
    return wrap(std::move(migrated).error(), "open the journal");
  SPACE_TRY(Statement select, db.prepare("SELECT id FROM node"));
  SPACE_TRY(auto id, select.one([](Statement& row) { return std::string(row.text(0)); }));
  return Journal(std::move(db), id.value_or(""));
}

Result<std::vector<SandboxRecord>> Journal::sandboxes() {
  SPACE_TRY(Statement select,
            db_.prepare(fmt::format("SELECT {} FROM sandboxes ORDER BY id", sandbox_columns)));
  return all(select, record_of);
}

Result<void> Journal::insert(const SandboxRecord& r) {
  std::string marks = "?";  // one more than commas, and one for the epoch
  for (const char c : std::string_view(sandbox_columns))
    if (c == ',') marks += ",?";
  SPACE_TRY(Statement insert, db_.prepare(fmt::format("INSERT INTO sandboxes({}, epoch) VALUES ({},?)",
                                                      sandbox_columns, marks)));
  return insert
      .bind(r.id, r.generation, r.template_digest, r.shape.vcpus, r.shape.memory_mib, r.shape.disk_mib,
            to_string(r.state), to_string(r.wanted), r.reason, milliseconds(r.started_at),
            milliseconds(r.wake_at), r.team, to_string(r.accelerator), to_string(r.memory), r.idle,
            r.last_snapshot, sandbox_of(r.restored_from), number_of(r.restored_from), r.counter,
            r.policy.idle_pause_s, r.policy.hot_keep_s, r.compared_with, r.head, r.undo, r.disk_from_head,
            sandbox_of(r.origin), number_of(r.origin), schedule_text(r), to_string(r.recovery),
            recovered_text(r), r.egress, r.egress_generation, epochs_before_a_record)
      .run();
}

Result<void> Journal::update(const SandboxRecord& r) {
  SPACE_TRY(Statement update,
            db_.prepare("UPDATE sandboxes SET state=?, wanted=?, reason=?, started_at=?, memory=?, idle=?,"
                        " last_snapshot=?, source=?, source_number=?, counter=?, idle_pause_s=?,"
                        " hot_keep_s=?, compared_with=?, head=?, undo=?, disk_from_head=?, schedule=?,"
                        " recovery=?, recovered=?, egress=?, egress_generation=? WHERE id=?"));
  return update
      .bind(to_string(r.state), to_string(r.wanted), r.reason, milliseconds(r.started_at),
            to_string(r.memory), r.idle, r.last_snapshot, sandbox_of(r.restored_from),
            number_of(r.restored_from), r.counter, r.policy.idle_pause_s, r.policy.hot_keep_s,
            r.compared_with, r.head, r.undo, r.disk_from_head, schedule_text(r), to_string(r.recovery),
            recovered_text(r), r.egress, r.egress_generation, r.id)
      .run();
}

Result<void> Journal::commit(const JournalChange& change) {
  SPACE_TRY(Transaction transaction, db_.begin());
  for (const SnapshotRecord& snapshot : change.snapshots) SPACE_CHECK(put_snapshot(db_, snapshot));
  for (const SnapshotId& removed : change.removed) {
    SPACE_TRY(Statement erase, db_.prepare("DELETE FROM snapshots WHERE sandbox=? AND number=?"));
    SPACE_CHECK(erase.bind(removed.sandbox, removed.number).run());
  }
  for (const HistoryRow& row : change.history) SPACE_CHECK(put_history(db_, row));
  if (change.record != nullptr) SPACE_CHECK(update(*change.record));
  return transaction.commit();
}

Result<void> Journal::set_wake_at(const std::string& id, std::optional<Wall> wake_at) {
  SPACE_TRY(Statement update, db_.prepare("UPDATE sandboxes SET wake_at=? WHERE id=?"));
  return update.bind(milliseconds(wake_at), id).run();
}

Result<void> Journal::erase(const std::string& id, const std::set<std::uint64_t>& kept) {
  SPACE_TRY(const std::vector<SnapshotRecord> known, snapshots_of(id));
  SPACE_TRY(Transaction transaction, db_.begin());
  for (const SnapshotRecord& snapshot : known) {
    if (kept.contains(snapshot.number)) continue;
    SPACE_TRY(Statement erase, db_.prepare("DELETE FROM snapshots WHERE sandbox=? AND number=?"));
    SPACE_CHECK(erase.bind(id, snapshot.number).run());
  }
  SPACE_TRY(Statement history, db_.prepare("DELETE FROM history WHERE sandbox=?"));
  SPACE_CHECK(history.bind(id).run());
  SPACE_TRY(Statement erase, db_.prepare("DELETE FROM sandboxes WHERE id=?"));
  SPACE_CHECK(erase.bind(id).run());
  return transaction.commit();
}

Result<std::vector<SnapshotRecord>> Journal::snapshots() {
  SPACE_TRY(Statement select, db_.prepare(fmt::format("{} ORDER BY sandbox, number", select_snapshots)));
  return all(select, snapshot_of);
}

Result<std::vector<SnapshotRecord>> Journal::snapshots_of(const std::string& id) {
  SPACE_TRY(Statement select,
            db_.prepare(fmt::format("{} WHERE sandbox=? ORDER BY number", select_snapshots)));
  select.bind(id);
  return all(select, snapshot_of);
}

Result<std::vector<HistoryRow>> Journal::history(const std::string& id) {
  SPACE_TRY(Statement select, db_.prepare("SELECT sandbox, at, kind, number, other, text FROM history"
                                          " WHERE sandbox=? ORDER BY sequence"));
  select.bind(id);
  return all(select, history_row_of);
}

Result<std::vector<TemplateCheckpoint>> Journal::template_checkpoints() {
  SPACE_TRY(Statement select, db_.prepare("SELECT template, vcpus, memory_mib, disk_mib, builder"
                                          " FROM template_checkpoints"));
  std::vector<TemplateCheckpoint> checkpoints;
  while (true) {
    SPACE_TRY(const bool found, select.step());
    if (!found) return checkpoints;
    checkpoints.push_back({std::string(select.text(0)),
                           {select.integer(1), select.integer(2), select.integer(3)},
                           std::string(select.text(4))});
  }
}

Result<void> Journal::add_template_checkpoint(const TemplateCheckpoint& c) {
  SPACE_TRY(Statement insert, db_.prepare("INSERT OR REPLACE INTO template_checkpoints(template, vcpus,"
                                          " memory_mib, disk_mib, builder) VALUES (?,?,?,?,?)"));
  return insert.bind(c.template_digest, c.shape.vcpus, c.shape.memory_mib, c.shape.disk_mib, c.builder).run();
}

Result<void> Journal::erase_template_checkpoint(const std::string& builder) {
  SPACE_TRY(Statement erase, db_.prepare("DELETE FROM template_checkpoints WHERE builder=?"));
  return erase.bind(builder).run();
}

Result<std::uint64_t> Journal::next_epoch(const std::string& id) {
  SPACE_TRY(Statement update, db_.prepare("UPDATE sandboxes SET epoch=epoch+1 WHERE id=? RETURNING epoch"));
  SPACE_TRY(auto epoch, update.bind(id).one([](Statement& row) { return row.integer(0); }));
  if (!epoch) return fail(Code::not_found, "the journal does not know {}", id);
  return static_cast<std::uint64_t>(*epoch);
}

}  // namespace space

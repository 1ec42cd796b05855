#include "sandboxd/journal.h"

#include "base/ids.h"

namespace space {
namespace {

constexpr std::int64_t current_schema = 4;

constexpr const char* first_schema = R"(
CREATE TABLE node(
  id TEXT NOT NULL
);
CREATE TABLE sandboxes(
  id         TEXT PRIMARY KEY,
  generation INTEGER NOT NULL,
  template   TEXT NOT NULL,
  vcpus      INTEGER NOT NULL,
  memory_mib INTEGER NOT NULL,
  disk_mib   INTEGER NOT NULL,
  state      TEXT NOT NULL,
  wanted     TEXT NOT NULL,
  reason     TEXT NOT NULL,
  started_at INTEGER,                    -- milliseconds since 1970
  epoch      INTEGER NOT NULL DEFAULT 0  -- of the last channel attach
) WITHOUT ROWID;
)";
constexpr const char* second_schema = "ALTER TABLE sandboxes ADD COLUMN wake_at INTEGER";  // milliseconds
// What ran before belongs to the one team there was; its accelerator is not known, and TCG promises less.
constexpr const char* third_schema = R"(
ALTER TABLE sandboxes ADD COLUMN team TEXT NOT NULL DEFAULT 'default';
ALTER TABLE sandboxes ADD COLUMN accelerator TEXT NOT NULL DEFAULT 'tcg';
)";
constexpr const char* fourth_schema = R"(
ALTER TABLE sandboxes ADD COLUMN memory TEXT NOT NULL DEFAULT 'vmm';
ALTER TABLE sandboxes ADD COLUMN idle INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN last_snapshot INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN compared_with INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN source TEXT;            -- restored from this sandbox's
ALTER TABLE sandboxes ADD COLUMN source_number INTEGER;  -- snapshot
ALTER TABLE sandboxes ADD COLUMN counter INTEGER NOT NULL DEFAULT 1;
ALTER TABLE sandboxes ADD COLUMN idle_pause_s INTEGER;
ALTER TABLE sandboxes ADD COLUMN hot_keep_s INTEGER;
CREATE TABLE snapshots(
  sandbox        TEXT NOT NULL,
  number         INTEGER NOT NULL,
  parent         INTEGER,
  created_at     INTEGER NOT NULL,
  quiesced       INTEGER NOT NULL,
  kept           INTEGER NOT NULL,
  memory_bytes   INTEGER NOT NULL,
  dirty_bytes    INTEGER NOT NULL,
  written_bytes  INTEGER NOT NULL,
  stop_window_us INTEGER NOT NULL,
  PRIMARY KEY(sandbox, number)
) WITHOUT ROWID;
CREATE TABLE template_checkpoints(
  template   TEXT NOT NULL,
  vcpus      INTEGER NOT NULL,
  memory_mib INTEGER NOT NULL,
  disk_mib   INTEGER NOT NULL,
  builder    TEXT NOT NULL,
  PRIMARY KEY(template, vcpus, memory_mib, disk_mib)
) WITHOUT ROWID;
)";

Result<void> migrate(Sqlite& db) {
  SPACE_TRY(const std::int64_t version, db.schema_version());
  if (version == current_schema) return {};
  if (version > current_schema)
    return fail(Code::conflict, "the journal has schema {}, this program knows {}", version, current_schema);
  SPACE_TRY(Transaction transaction, db.begin());
  if (version < 1) {
    SPACE_CHECK(db.execute(first_schema));
    SPACE_TRY(Statement insert, db.prepare("INSERT INTO node(id) VALUES (?)"));
    SPACE_CHECK(insert.bind("n" + to_hex(random_bytes(8))).run());
  }
  if (version < 2) SPACE_CHECK(db.execute(second_schema));
  if (version < 3) SPACE_CHECK(db.execute(third_schema));
  SPACE_CHECK(db.execute(fourth_schema));
  SPACE_CHECK(db.set_schema_version(current_schema));
  return transaction.commit();
}

std::int64_t milliseconds(Wall time) {
  return time.time_since_epoch().count();
}

std::optional<std::int64_t> milliseconds(const std::optional<Wall>& time) {
  if (!time) return std::nullopt;
  return time->time_since_epoch().count();
}

Result<SandboxRecord> record_of(const Statement& row) {
  const auto state = state_from(row.text(6));
  const auto wanted = wanted_from(row.text(7));
  if (!state || !wanted)
    return fail(Code::internal, "the journal holds an unknown state for {}", row.text(0));
  SandboxRecord record;
  record.id = row.text(0);
  record.generation = row.integer(1);
  record.template_digest = row.text(2);
  record.shape = {row.integer(3), row.integer(4), row.integer(5)};
  record.state = *state;
  record.wanted = *wanted;
  record.reason = row.text(8);
  if (const auto started = row.optional_integer(9)) record.started_at = Wall(Millis(*started));
  record.team = row.text(11);
  record.accelerator = row.text(12) == "kvm" ? MachineAccelerator::kvm : MachineAccelerator::tcg;
  if (const auto wake = row.optional_integer(10)) record.wake_at = Wall(Millis(*wake));
  const auto memory = memory_place_from(row.text(13));
  if (!memory)
    return fail(Code::internal, "the journal holds an unknown place of memory for {}", row.text(0));
  record.memory = *memory;
  record.idle = row.integer(14) != 0;
  record.last_snapshot = static_cast<std::uint64_t>(row.integer(15));
  if (const auto source = row.optional_text(16))
    record.restored_from = {*source, static_cast<std::uint64_t>(row.integer(17))};
  record.counter = row.integer(18);
  record.policy = {row.optional_integer(19), row.optional_integer(20)};
  record.compared_with = static_cast<std::uint64_t>(row.integer(21));
  return record;
}

SnapshotRecord snapshot_of(const Statement& row) {
  SnapshotRecord snapshot;
  snapshot.sandbox = row.text(0);
  snapshot.number = static_cast<std::uint64_t>(row.integer(1));
  if (const auto parent = row.optional_integer(2)) snapshot.parent = static_cast<std::uint64_t>(*parent);
  snapshot.created_at = Wall(Millis(row.integer(3)));
  snapshot.quiesced = row.integer(4) != 0;
  snapshot.kept = row.integer(5) != 0;
  snapshot.memory_bytes = row.integer(6);
  snapshot.dirty_bytes = row.integer(7);
  snapshot.written_bytes = row.integer(8);
  snapshot.stop_window_us = row.integer(9);
  return snapshot;
}

std::optional<std::string> source_of(const SandboxRecord& record) {
  if (!record.restored_from) return std::nullopt;
  return record.restored_from->sandbox;
}

std::optional<std::uint64_t> source_number_of(const SandboxRecord& record) {
  if (!record.restored_from) return std::nullopt;
  return record.restored_from->number;
}

}  // namespace

Result<Journal> Journal::open(const std::string& path) {
  SPACE_TRY(Sqlite db, Sqlite::open(path));
  if (auto migrated = migrate(db); !migrated) return wrap(std::move(migrated).error(), "open the journal");
  SPACE_TRY(Statement select, db.prepare("SELECT id FROM node"));
  SPACE_TRY(auto id, select.one([](Statement& row) { return std::string(row.text(0)); }));
  return Journal(std::move(db), id.value_or(""));
}

Result<std::vector<SandboxRecord>> Journal::sandboxes() {
  SPACE_TRY(Statement select,
            db_.prepare("SELECT id, generation, template, vcpus, memory_mib, disk_mib, state, wanted,"
                        " reason, started_at, wake_at, team, accelerator, memory, idle, last_snapshot,"
                        " source, source_number, counter, idle_pause_s, hot_keep_s, compared_with"
                        " FROM sandboxes ORDER BY id"));
  std::vector<SandboxRecord> records;
  while (true) {
    SPACE_TRY(const bool found, select.step());
    if (!found) return records;
    SPACE_TRY(SandboxRecord record, record_of(select));
    records.push_back(std::move(record));
  }
}

Result<void> Journal::insert(const SandboxRecord& r) {
  SPACE_TRY(Statement insert,
            db_.prepare("INSERT INTO sandboxes(id, generation, template, vcpus, memory_mib, disk_mib,"
                        " state, wanted, reason, started_at, team, accelerator, memory, idle, last_snapshot,"
                        " source, source_number, counter, idle_pause_s, hot_keep_s, compared_with, epoch)"
                        " VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  return insert
      .bind(r.id, r.generation, r.template_digest, r.shape.vcpus, r.shape.memory_mib, r.shape.disk_mib,
            to_string(r.state), to_string(r.wanted), r.reason, milliseconds(r.started_at), r.team,
            to_string(r.accelerator), to_string(r.memory), r.idle, r.last_snapshot, source_of(r),
            source_number_of(r), r.counter, r.policy.idle_pause_s, r.policy.hot_keep_s, r.compared_with,
            epochs_before_a_record)
      .run();
}

Result<void> Journal::update(const SandboxRecord& r) {
  SPACE_TRY(Statement update,
            db_.prepare("UPDATE sandboxes SET state=?, wanted=?, reason=?, started_at=?, memory=?, idle=?,"
                        " last_snapshot=?, source=?, source_number=?, counter=?, idle_pause_s=?,"
                        " hot_keep_s=?, compared_with=? WHERE id=?"));
  return update
      .bind(to_string(r.state), to_string(r.wanted), r.reason, milliseconds(r.started_at),
            to_string(r.memory), r.idle, r.last_snapshot, source_of(r), source_number_of(r), r.counter,
            r.policy.idle_pause_s, r.policy.hot_keep_s, r.compared_with, r.id)
      .run();
}

Result<void> Journal::add_snapshot(const SnapshotRecord& s, const SandboxRecord* record) {
  SPACE_TRY(Transaction transaction, db_.begin());
  SPACE_TRY(
      Statement insert,
      db_.prepare("INSERT OR REPLACE INTO snapshots(sandbox, number, parent, created_at, quiesced, kept,"
                  " memory_bytes, dirty_bytes, written_bytes, stop_window_us)"
                  " VALUES (?,?,?,?,?,?,?,?,?,?)"));
  SPACE_CHECK(insert
                  .bind(s.sandbox, s.number, s.parent, milliseconds(s.created_at), s.quiesced, s.kept,
                        s.memory_bytes, s.dirty_bytes, s.written_bytes, s.stop_window_us)
                  .run());
  if (record != nullptr) SPACE_CHECK(update(*record));
  return transaction.commit();
}

Result<void> Journal::set_wake_at(const std::string& id, std::optional<Wall> wake_at) {
  SPACE_TRY(Statement update, db_.prepare("UPDATE sandboxes SET wake_at=? WHERE id=?"));
  return update.bind(milliseconds(wake_at), id).run();
}

Result<void> Journal::erase(const std::string& id) {
  SPACE_TRY(Transaction transaction, db_.begin());
  SPACE_TRY(Statement snapshots, db_.prepare("DELETE FROM snapshots WHERE sandbox=?"));
  SPACE_CHECK(snapshots.bind(id).run());
  SPACE_TRY(Statement erase, db_.prepare("DELETE FROM sandboxes WHERE id=?"));
  SPACE_CHECK(erase.bind(id).run());
  return transaction.commit();
}

Result<std::vector<SnapshotRecord>> Journal::snapshots() {
  SPACE_TRY(Statement select,
            db_.prepare("SELECT sandbox, number, parent, created_at, quiesced, kept, memory_bytes,"
                        " dirty_bytes, written_bytes, stop_window_us FROM snapshots"
                        " ORDER BY sandbox, number"));
  std::vector<SnapshotRecord> records;
  while (true) {
    SPACE_TRY(const bool found, select.step());
    if (!found) return records;
    records.push_back(snapshot_of(select));
  }
}

Result<void> Journal::erase_snapshot(const SnapshotId& snapshot) {
  SPACE_TRY(Statement erase, db_.prepare("DELETE FROM snapshots WHERE sandbox=? AND number=?"));
  return erase.bind(snapshot.sandbox, snapshot.number).run();
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

#include "sandboxd/journal.h"

#include "base/ids.h"

namespace space {
namespace {

constexpr std::int64_t current_schema = 3;

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
  SPACE_CHECK(db.execute(third_schema));
  SPACE_CHECK(db.set_schema_version(current_schema));
  return transaction.commit();
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
  return record;
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
                        " reason, started_at, wake_at, team, accelerator FROM sandboxes ORDER BY id"));
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
                        " state, wanted, reason, started_at, team, accelerator)"
                        " VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"));
  return insert
      .bind(r.id, r.generation, r.template_digest, r.shape.vcpus, r.shape.memory_mib, r.shape.disk_mib,
            to_string(r.state), to_string(r.wanted), r.reason, milliseconds(r.started_at), r.team,
            to_string(r.accelerator))
      .run();
}

Result<void> Journal::update(const SandboxRecord& r) {
  SPACE_TRY(Statement update,
            db_.prepare("UPDATE sandboxes SET state=?, wanted=?, reason=?, started_at=? WHERE id=?"));
  return update.bind(to_string(r.state), to_string(r.wanted), r.reason, milliseconds(r.started_at), r.id)
      .run();
}

Result<void> Journal::set_wake_at(const std::string& id, std::optional<Wall> wake_at) {
  SPACE_TRY(Statement update, db_.prepare("UPDATE sandboxes SET wake_at=? WHERE id=?"));
  return update.bind(milliseconds(wake_at), id).run();
}

Result<void> Journal::erase(const std::string& id) {
  SPACE_TRY(Statement erase, db_.prepare("DELETE FROM sandboxes WHERE id=?"));
  return erase.bind(id).run();
}

Result<std::uint64_t> Journal::next_epoch(const std::string& id) {
  SPACE_TRY(Statement update, db_.prepare("UPDATE sandboxes SET epoch=epoch+1 WHERE id=? RETURNING epoch"));
  SPACE_TRY(auto epoch, update.bind(id).one([](Statement& row) { return row.integer(0); }));
  if (!epoch) return fail(Code::not_found, "the journal does not know {}", id);
  return static_cast<std::uint64_t>(*epoch);
}

}  // namespace space

#include "sandboxd/journal_schema.h"

#include "base/ids.h"

namespace space {
namespace {

constexpr std::int64_t current_schema = 6;

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

// Until then snapshots followed each other in one line, so the parent of each is the one before it that is
// still there, and the newest is what the sandbox goes on from.
constexpr const char* fifth_schema = R"(
ALTER TABLE snapshots ADD COLUMN kind TEXT NOT NULL DEFAULT 'full';
ALTER TABLE snapshots ADD COLUMN cause TEXT NOT NULL DEFAULT 'pause';
ALTER TABLE snapshots ADD COLUMN name TEXT NOT NULL DEFAULT '';
ALTER TABLE snapshots ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN published INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN team TEXT NOT NULL DEFAULT '';
ALTER TABLE snapshots ADD COLUMN template TEXT NOT NULL DEFAULT '';
ALTER TABLE snapshots ADD COLUMN vcpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN memory_mib INTEGER NOT NULL DEFAULT 0;
ALTER TABLE snapshots ADD COLUMN disk_mib INTEGER NOT NULL DEFAULT 0;
UPDATE snapshots SET cause = 'asked' WHERE kept <> 0;
UPDATE snapshots SET parent = (SELECT max(p.number) FROM snapshots AS p
  WHERE p.sandbox = snapshots.sandbox AND p.number < snapshots.number);
UPDATE snapshots SET team = s.team, template = s.template, vcpus = s.vcpus, memory_mib = s.memory_mib,
  disk_mib = s.disk_mib FROM sandboxes AS s WHERE s.id = snapshots.sandbox;
ALTER TABLE snapshots DROP COLUMN kept;
ALTER TABLE sandboxes ADD COLUMN head INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN undo INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN disk_from_head INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN origin TEXT;            -- began as this sandbox's
ALTER TABLE sandboxes ADD COLUMN origin_number INTEGER;  -- snapshot
ALTER TABLE sandboxes ADD COLUMN schedule TEXT;          -- JSON, core/schedule.h
ALTER TABLE sandboxes ADD COLUMN recovery TEXT NOT NULL DEFAULT 'disk';
ALTER TABLE sandboxes ADD COLUMN recovered TEXT;         -- JSON, core/recovery.h
UPDATE sandboxes SET head = coalesce((SELECT max(number) FROM snapshots WHERE sandbox = id), 0);
UPDATE sandboxes SET origin = source, origin_number = source_number WHERE source <> id;
CREATE TABLE history(
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  sandbox  TEXT NOT NULL,
  at       INTEGER NOT NULL,  -- milliseconds since 1970
  kind     TEXT NOT NULL,
  number   INTEGER,
  other    TEXT,              -- sandbox
  text     TEXT NOT NULL
);
CREATE INDEX history_of ON history(sandbox, sequence);
)";
// What is from before the network gateway had no network, and has none until somebody says otherwise.
constexpr const char* sixth_schema = R"(
ALTER TABLE sandboxes ADD COLUMN egress TEXT NOT NULL DEFAULT '{"mode":"deny_all"}';  -- JSON, core/egress_policy.h
ALTER TABLE sandboxes ADD COLUMN egress_generation INTEGER NOT NULL DEFAULT 0;
)";

}  // namespace

Result<void> migrate_journal(Sqlite& db) {
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
  if (version < 4) SPACE_CHECK(db.execute(fourth_schema));
  if (version < 5) SPACE_CHECK(db.execute(fifth_schema));
  SPACE_CHECK(db.execute(sixth_schema));
  SPACE_CHECK(db.set_schema_version(current_schema));
  return transaction.commit();
}

}  // namespace space

#include "store/migrations.h"

namespace space::store {
namespace {

// Times are UTC milliseconds; states and wishes are the words of core/lifecycle.h.
constexpr Migration all[] = {
    {1, "teams, keys, templates, sandboxes", R"sql(
CREATE TABLE teams (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE api_keys (
  sha256 TEXT PRIMARY KEY,
  team TEXT NOT NULL REFERENCES teams(id),
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE templates (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  digest TEXT NOT NULL,
  vcpus INTEGER NOT NULL,
  memory_mib INTEGER NOT NULL,
  disk_mib INTEGER NOT NULL,
  default_user TEXT NOT NULL,
  default_workdir TEXT NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE sandboxes (
  id TEXT PRIMARY KEY,
  team TEXT NOT NULL REFERENCES teams(id),
  state TEXT NOT NULL,
  wanted TEXT NOT NULL,
  generation INTEGER NOT NULL,
  template_id TEXT NOT NULL,
  template_name TEXT NOT NULL,
  template_digest TEXT NOT NULL,
  vcpus INTEGER NOT NULL,
  memory_mib INTEGER NOT NULL,
  disk_mib INTEGER NOT NULL,
  metadata TEXT NOT NULL,
  allow_internet_access INTEGER,
  network TEXT NOT NULL,
  allow_public_traffic INTEGER NOT NULL,
  mask_request_host TEXT NOT NULL,
  access_token TEXT NOT NULL,
  traffic_token TEXT NOT NULL,
  timeout_s INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  end_at INTEGER NOT NULL,
  ended_at INTEGER,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX sandboxes_listed ON sandboxes(team, started_at, id) WHERE ended_at IS NULL AND wanted <> 'deleted';
CREATE INDEX sandboxes_unfinished ON sandboxes(id) WHERE ended_at IS NULL;
)sql"},
    {2, "what happens at a timeout, and when a sandbox rests", R"sql(
ALTER TABLE sandboxes ADD COLUMN pause_on_timeout INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN pause_keeps_memory INTEGER NOT NULL DEFAULT 1;
ALTER TABLE sandboxes ADD COLUMN auto_resume INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sandboxes ADD COLUMN idle_pause_s INTEGER;
ALTER TABLE sandboxes ADD COLUMN hot_keep_s INTEGER;
ALTER TABLE sandboxes ADD COLUMN default_user TEXT NOT NULL DEFAULT '';
ALTER TABLE sandboxes ADD COLUMN default_workdir TEXT NOT NULL DEFAULT '';
)sql"},
    // AUTOINCREMENT: a build's number is never given again, so that it is a position in a listing.
    {3, "snapshots as templates, and what a sandbox inherits", R"sql(
ALTER TABLE sandboxes ADD COLUMN schedule TEXT NOT NULL DEFAULT '';
ALTER TABLE sandboxes ADD COLUMN recovery TEXT NOT NULL DEFAULT 'disk';
ALTER TABLE sandboxes ADD COLUMN origin_sandbox TEXT NOT NULL DEFAULT '';
ALTER TABLE sandboxes ADD COLUMN origin_number INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sandboxes_begun ON sandboxes(origin_sandbox, origin_number)
  WHERE ended_at IS NULL AND origin_sandbox <> '';

CREATE TABLE snapshot_templates (
  build INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  team TEXT NOT NULL REFERENCES teams(id),
  name TEXT NOT NULL,
  tag TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  snapshot_sandbox TEXT NOT NULL,
  snapshot_number INTEGER NOT NULL,
  vcpus INTEGER NOT NULL,
  memory_mib INTEGER NOT NULL,
  disk_mib INTEGER NOT NULL,
  base_id TEXT NOT NULL,
  base_name TEXT NOT NULL,
  base_digest TEXT NOT NULL,
  default_user TEXT NOT NULL,
  default_workdir TEXT NOT NULL
) STRICT;
CREATE INDEX snapshot_templates_named ON snapshot_templates(team, name) WHERE name <> '';
CREATE INDEX snapshot_templates_tagged ON snapshot_templates(id, tag, build);
CREATE INDEX snapshot_templates_taken ON snapshot_templates(snapshot_sandbox, snapshot_number);
)sql"},
    // Sandboxes of before had no way out, and nobody was promised one.
    {4, "where a sandbox may connect to", R"sql(
ALTER TABLE sandboxes ADD COLUMN egress TEXT NOT NULL DEFAULT '{"mode":"deny_all"}';
ALTER TABLE sandboxes ADD COLUMN egress_generation INTEGER NOT NULL DEFAULT 0;
)sql"},
};

}  // namespace

std::span<const Migration> sqlite_migrations() {
  return all;
}

}  // namespace space::store

// Repository: what the control plane remembers. One interface; every implementation passes
// repository_contract.h.
//
// A change is durable when its call returns. Changes to one sandbox take effect in the order of the calls,
// and a caller resumes in that order too, so a copy kept in memory is never older than the row. Errors:
// not_found and conflict as said below; anything else is the database's trouble (unavailable, exhausted,
// internal).
#pragma once

#include <set>

#include "net/task.h"
#include "store/records.h"

namespace space::store {

class Repository {
 public:
  virtual ~Repository() = default;

  // conflict: the id or name is taken.
  virtual Task<Result<void>> add_team(Team team) = 0;
  // The same key twice is fine; not_found: no such team.
  virtual Task<Result<void>> add_api_key(ApiKey key) = 0;
  virtual Task<Result<bool>> has_api_keys() = 0;
  virtual Task<Result<std::optional<Team>>> team_of_key(std::string sha256_hex) = 0;

  // Inserts, or gives the name its new digest, shape and defaults; answers the row with its lasting id.
  virtual Task<Result<Template>> put_template(Template row) = 0;
  virtual Task<Result<std::optional<Template>>> find_template(std::string id_or_name) = 0;
  virtual Task<Result<std::vector<Template>>> list_templates() = 0;
  // Answers the row that was there, or nothing.
  virtual Task<Result<std::optional<Template>>> remove_template(std::string id_or_name) = 0;

  // conflict: the id is taken.
  virtual Task<Result<void>> add_sandbox(Sandbox row) = 0;
  // Of one that begins as this build of a snapshot template. not_found: the build is gone.
  virtual Task<Result<void>> add_sandbox_of(Sandbox row, std::int64_t build) = 0;
  virtual Task<Result<std::optional<Sandbox>>> find_sandbox(std::string id) = 0;
  // Pages through the sandboxes of a team that are not over and not on their way out.
  virtual Task<Result<SandboxPage>> list_sandboxes(SandboxQuery query) = 0;
  // The same selection without its page.
  virtual Task<Result<std::int64_t>> count_sandboxes(SandboxQuery query) = 0;
  // Everything that is not over, of all teams: what a starting control plane takes over.
  virtual Task<Result<std::vector<Sandbox>>> unfinished_sandboxes() = 0;

  // The changes of a sandbox; each answers the row as it is now.
  // conflict: it is over or meant to be.
  virtual Task<Result<Sandbox>> set_state(std::string id, StateChange change) = 0;
  virtual Task<Result<Sandbox>> set_end(std::string id, Wall end_at) = 0;
  virtual Task<Result<Sandbox>> set_policy(std::string id, PausePolicy policy) = 0;
  virtual Task<Result<Sandbox>> set_schedule(std::string id, std::optional<SnapshotSchedule> schedule) = 0;
  virtual Task<Result<Sandbox>> set_recovery(std::string id, RecoveryPolicy policy) = 0;
  virtual Task<Result<Sandbox>> set_egress(std::string id, EgressChange change) = 0;
  // Wins over everything; conflict when it is over or wanted deleted already.
  virtual Task<Result<Sandbox>> want_deleted(std::string id, std::string reason) = 0;
  // Makes the tombstone. Repeating it changes nothing: the first reason stays, and one given by want_deleted
  // too.
  virtual Task<Result<Sandbox>> finish(std::string id, State state, std::string reason, Wall at) = 0;

  // Adds a build: to the team's template of that name if there is one, else to a new one with the row's id.
  // Answers the row as stored, with its build and the template's lasting id.
  virtual Task<Result<SnapshotTemplate>> add_snapshot_template(SnapshotTemplate row) = 0;
  // The newest build of the tag.
  virtual Task<Result<std::optional<SnapshotTemplate>>> find_snapshot_template(std::string team,
                                                                               std::string id_or_name,
                                                                               std::string tag) = 0;
  virtual Task<Result<SnapshotTemplatePage>> list_snapshot_templates(SnapshotTemplateQuery query) = 0;
  // Removes all builds of the tag, or of the template where `tag` is empty; answers them. conflict: sandboxes
  // that are not over began as one; the message names them. Nothing is removed then.
  virtual Task<Result<std::vector<SnapshotTemplate>>> remove_snapshot_template(std::string team,
                                                                               std::string id_or_name,
                                                                               std::string tag) = 0;
  // Removes the builds that a newer one of their tag replaced and that no sandbox which is not over began as;
  // answers them.
  virtual Task<Result<std::vector<SnapshotTemplate>>> remove_replaced_builds() = 0;
  // Of every build of all teams.
  virtual Task<Result<std::set<SnapshotId>>> published_snapshots() = 0;
};

}  // namespace space::store

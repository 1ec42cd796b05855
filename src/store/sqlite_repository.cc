#include "store/sqlite_repository.h"

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "store/migrations.h"
#include "store/sqlite_database.h"
#include "store/sqlite_rows.h"
#include "store/sqlite_snapshots.h"

namespace space::store {
namespace {

namespace asio = boost::asio;

const std::string& in_listing() {
  static const std::string text =
      " FROM sandboxes WHERE team = ?1 AND ended_at IS NULL AND wanted <> 'deleted'"
      " AND state IN (SELECT value FROM json_each(?2))"
      " AND (?3 IS NULL OR started_at >= ?3)"
      " AND (?4 = '' OR template_id = ?4 OR template_name = ?4)"
      " AND NOT EXISTS (SELECT 1 FROM json_each(?5) AS f WHERE NOT EXISTS"
      "   (SELECT 1 FROM json_each(sandboxes.metadata) AS m WHERE m.key = f.key AND m.value = f.value))";
  return text;
}

class SqliteRepository final : public Repository {
 public:
  explicit SqliteRepository(Sqlite db) : database_(std::move(db)) {}
  ~SqliteRepository() override { thread_.join(); }

  Task<Result<void>> add_team(Team team) override {
    co_return co_await on_thread([team = std::move(team)](Database& db) {
      return db.run("INSERT INTO teams(id, name) VALUES (?, ?)", team.id, team.name);
    });
  }

  Task<Result<void>> add_api_key(ApiKey key) override {
    co_return co_await on_thread([key = std::move(key)](Database& db) -> Result<void> {
      SPACE_TRY(const auto team,
                db.row<Team>("SELECT id, name FROM teams WHERE id = ?", read_team, key.team));
      if (!team) return fail(Code::not_found, "team {} does not exist", key.team);
      return db.run("INSERT OR IGNORE INTO api_keys(sha256, team, name, created_at) VALUES (?, ?, ?, ?)",
                    key.sha256_hex, key.team, key.name, to_ms(key.created_at));
    });
  }

  Task<Result<bool>> has_api_keys() override {
    co_return co_await on_thread([](Database& db) -> Result<bool> {
      SPACE_TRY(const auto row,
                db.row<bool>("SELECT 1 FROM api_keys LIMIT 1", [](const Statement&) { return true; }));
      return row.has_value();
    });
  }

  Task<Result<std::optional<Team>>> team_of_key(std::string sha256_hex) override {
    co_return co_await on_thread([key = std::move(sha256_hex)](Database& db) {
      return db.row<Team>(
          "SELECT teams.id, teams.name FROM api_keys JOIN teams ON teams.id = api_keys.team WHERE sha256 = ?",
          read_team, key);
    });
  }

  Task<Result<Template>> put_template(Template row) override {
    co_return co_await on_thread([t = std::move(row)](Database& db) -> Result<Template> {
      static const std::string sql = fmt::format(
          "INSERT INTO templates({0}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
          " ON CONFLICT(name) DO UPDATE SET digest = excluded.digest, vcpus = excluded.vcpus,"
          " memory_mib = excluded.memory_mib, disk_mib = excluded.disk_mib,"
          " default_user = excluded.default_user, default_workdir = excluded.default_workdir,"
          " updated_at = excluded.updated_at RETURNING {0}",
          template_columns);
      SPACE_TRY(auto stored, db.row<Template>(sql, read_template, t.id, t.name, t.digest, t.shape.vcpus,
                                              t.shape.memory_mib, t.shape.disk_mib, t.default_user,
                                              t.default_workdir, to_ms(t.updated_at)));
      if (!stored) return fail(Code::internal, "template {} was not stored", t.name);
      return *std::move(stored);
    });
  }

  Task<Result<std::optional<Template>>> find_template(std::string id_or_name) override {
    co_return co_await on_thread([key = std::move(id_or_name)](Database& db) {
      static const std::string sql =
          fmt::format("SELECT {} FROM templates WHERE id = ?1 OR name = ?1", template_columns);
      return db.row<Template>(sql, read_template, key);
    });
  }

  Task<Result<std::vector<Template>>> list_templates() override {
    co_return co_await on_thread([](Database& db) {
      static const std::string sql = fmt::format("SELECT {} FROM templates ORDER BY name", template_columns);
      return db.rows<Template>(sql, read_template);
    });
  }

  Task<Result<std::optional<Template>>> remove_template(std::string id_or_name) override {
    co_return co_await on_thread([key = std::move(id_or_name)](Database& db) {
      static const std::string sql =
          fmt::format("DELETE FROM templates WHERE id = ?1 OR name = ?1 RETURNING {}", template_columns);
      return db.row<Template>(sql, read_template, key);
    });
  }

  Task<Result<void>> add_sandbox(Sandbox row) override {
    co_return co_await on_thread([row = std::move(row)](Database& db) { return insert(db, row); });
  }

  Task<Result<void>> add_sandbox_of(Sandbox row, std::int64_t build) override {
    co_return co_await on_thread([row = std::move(row), build](Database& db) -> Result<void> {
      SPACE_TRY(auto transaction, db.begin());
      SPACE_CHECK(snapshots::require(db, build));
      SPACE_CHECK(insert(db, row));
      return transaction.commit();
    });
  }

  Task<Result<std::optional<Sandbox>>> find_sandbox(std::string id) override {
    co_return co_await on_thread([id = std::move(id)](Database& db) { return find(db, id); });
  }

  Task<Result<SandboxPage>> list_sandboxes(SandboxQuery query) override {
    co_return co_await on_thread([q = std::move(query)](Database& db) -> Result<SandboxPage> {
      const bool oldest = q.order == Order::oldest_first;
      const std::string sql = fmt::format(
          "SELECT {}{} AND (?6 IS NULL OR (started_at, id) {} (?6, ?7))"
          " ORDER BY started_at {}, id {} LIMIT ?8",
          sandbox_columns, in_listing(), oldest ? ">" : "<", oldest ? "ASC" : "DESC",
          oldest ? "ASC" : "DESC");
      std::optional<std::int64_t> started_after, after_ms;
      if (q.started_after) started_after = to_ms(*q.started_after);
      if (q.after) after_ms = to_ms(q.after->started_at);
      SPACE_TRY(auto rows, db.rows<Sandbox>(sql, read_sandbox, q.team, to_json_text(q.states), started_after,
                                            q.template_id_or_name, to_json_text(q.metadata), after_ms,
                                            q.after ? q.after->id : std::string(), q.limit + 1));
      SandboxPage page{std::move(rows), false};
      page.more = page.sandboxes.size() > q.limit;
      if (page.more) page.sandboxes.pop_back();
      return page;
    });
  }

  Task<Result<std::int64_t>> count_sandboxes(SandboxQuery query) override {
    co_return co_await on_thread([q = std::move(query)](Database& db) -> Result<std::int64_t> {
      static const std::string sql = "SELECT count(*)" + in_listing();
      std::optional<std::int64_t> started_after;
      if (q.started_after) started_after = to_ms(*q.started_after);
      SPACE_TRY(const auto count,
                db.row<std::int64_t>(
                    sql, [](const Statement& row) { return row.integer(0); }, q.team, to_json_text(q.states),
                    started_after, q.template_id_or_name, to_json_text(q.metadata)));
      return count.value_or(0);
    });
  }

  Task<Result<std::vector<Sandbox>>> unfinished_sandboxes() override {
    co_return co_await on_thread([](Database& db) {
      static const std::string sql =
          fmt::format("SELECT {} FROM sandboxes WHERE ended_at IS NULL ORDER BY id", sandbox_columns);
      return db.rows<Sandbox>(sql, read_sandbox);
    });
  }

  Task<Result<Sandbox>> set_state(std::string id, StateChange to) override {
    co_return co_await on_thread([id = std::move(id), to](Database& db) {
      // Right of the =, a column is what it was.
      static const std::string sql = update_where(
          "state = ?2, wanted = coalesce(?3, wanted),"
          " generation = generation + (coalesce(?3, wanted) <> wanted),"
          " started_at = coalesce(?4, started_at), end_at = coalesce(?5, end_at),"
          " pause_on_timeout = coalesce(?6, pause_on_timeout), reason = coalesce(?7, reason)",
          "ended_at IS NULL AND wanted <> 'deleted'");
      std::optional<std::string> wanted;
      if (to.wanted) wanted = to_string(*to.wanted);
      return change(db, id, sql, to_string(to.state), wanted, to.started_at.transform(to_ms),
                    to.end_at.transform(to_ms), to.pause_on_timeout, to.reason);
    });
  }

  Task<Result<Sandbox>> set_end(std::string id, Wall end_at) override {
    co_return co_await on_thread([id = std::move(id), end_at](Database& db) {
      static const std::string sql = update_where("end_at = ?2", "ended_at IS NULL AND wanted <> 'deleted'");
      return change(db, id, sql, to_ms(end_at));
    });
  }

  Task<Result<Sandbox>> set_policy(std::string id, PausePolicy policy) override {
    co_return co_await on_thread([id = std::move(id), policy](Database& db) {
      static const std::string sql =
          update_where("idle_pause_s = ?2, hot_keep_s = ?3", "ended_at IS NULL AND wanted <> 'deleted'");
      return change(db, id, sql, policy.idle_pause_s, policy.hot_keep_s);
    });
  }

  Task<Result<Sandbox>> set_schedule(std::string id, std::optional<SnapshotSchedule> schedule) override {
    co_return co_await on_thread([id = std::move(id), schedule = std::move(schedule)](Database& db) {
      static const std::string sql =
          update_where("schedule = ?2", "ended_at IS NULL AND wanted <> 'deleted'");
      return change(db, id, sql, to_json_text(schedule));
    });
  }

  Task<Result<Sandbox>> set_recovery(std::string id, RecoveryPolicy policy) override {
    co_return co_await on_thread([id = std::move(id), policy](Database& db) {
      static const std::string sql =
          update_where("recovery = ?2", "ended_at IS NULL AND wanted <> 'deleted'");
      return change(db, id, sql, to_string(policy));
    });
  }

  Task<Result<Sandbox>> set_egress(std::string id, EgressChange to) override {
    co_return co_await on_thread([id = std::move(id), to = std::move(to)](Database& db) {
      static const std::string sql =
          update_where("egress = ?2, egress_generation = ?3, allow_internet_access = ?4, network = ?5",
                       "ended_at IS NULL AND wanted <> 'deleted'");
      return change(db, id, sql, to.egress.policy, to.egress.generation, to.allow_internet_access,
                    to.network);
    });
  }

  Task<Result<Sandbox>> want_deleted(std::string id, std::string reason) override {
    co_return co_await on_thread([id = std::move(id), reason = std::move(reason)](Database& db) {
      static const std::string sql =
          update_where("wanted = 'deleted', generation = generation + 1, reason = ?2",
                       "ended_at IS NULL AND wanted <> 'deleted'");
      return change(db, id, sql, reason);
    });
  }

  Task<Result<Sandbox>> finish(std::string id, State state, std::string reason, Wall at) override {
    co_return co_await on_thread(
        [id = std::move(id), state, reason = std::move(reason), at](Database& db) -> Result<Sandbox> {
          static const std::string sql = update_where(
              "state = ?2, ended_at = ?4, reason = iif(wanted = 'deleted', reason, ?3)", "ended_at IS NULL");
          auto changed = change(db, id, sql, to_string(state), reason, to_ms(at));
          if (changed || changed.error().code != Code::conflict) return changed;
          SPACE_TRY(auto tombstone, find(db, id));
          return *std::move(tombstone);
        });
  }

  Task<Result<SnapshotTemplate>> add_snapshot_template(SnapshotTemplate row) override {
    co_return co_await on_thread([row = std::move(row)](Database& db) { return snapshots::add(db, row); });
  }

  Task<Result<std::optional<SnapshotTemplate>>> find_snapshot_template(std::string team,
                                                                       std::string id_or_name,
                                                                       std::string tag) override {
    co_return co_await on_thread([team = std::move(team), key = std::move(id_or_name), tag = std::move(tag)](
                                     Database& db) { return snapshots::find(db, team, key, tag); });
  }

  Task<Result<SnapshotTemplatePage>> list_snapshot_templates(SnapshotTemplateQuery query) override {
    co_return co_await on_thread(
        [query = std::move(query)](Database& db) { return snapshots::list(db, query); });
  }

  Task<Result<std::vector<SnapshotTemplate>>> remove_snapshot_template(std::string team,
                                                                       std::string id_or_name,
                                                                       std::string tag) override {
    co_return co_await on_thread([team = std::move(team), key = std::move(id_or_name), tag = std::move(tag)](
                                     Database& db) { return snapshots::remove(db, team, key, tag); });
  }

  Task<Result<std::vector<SnapshotTemplate>>> remove_replaced_builds() override {
    co_return co_await on_thread([](Database& db) { return snapshots::remove_replaced(db); });
  }

  Task<Result<std::set<SnapshotId>>> published_snapshots() override {
    co_return co_await on_thread([](Database& db) { return snapshots::published(db); });
  }

 private:
  // Runs `work` on the database's thread and resumes the caller on its loop, in the order of the calls. Not
  // cancellable: what was handed over happens.
  template <class F>
  Task<std::invoke_result_t<F, Database&>> on_thread(F work) {
    using R = std::invoke_result_t<F, Database&>;
    co_return co_await asio::async_initiate<const asio::use_awaitable_t<>, void(R)>(
        [this](auto handler, F job) {
          asio::post(thread_, [this, handler = std::move(handler), job = std::move(job)]() mutable {
            R result = job(database_);
            const auto loop = asio::get_associated_executor(handler);
            asio::post(loop, [handler = std::move(handler), result = std::move(result)]() mutable {
              std::move(handler)(std::move(result));
            });
          });
        },
        asio::use_awaitable, std::move(work));
  }

  static Team read_team(const Statement& row) { return {std::string(row.text(0)), std::string(row.text(1))}; }

  static Result<void> insert(Database& db, const Sandbox& s) {
    static const std::string sql = fmt::format(
        "INSERT INTO sandboxes({}) VALUES "
        "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        sandbox_columns);
    const auto& options = s.options;
    const SnapshotId origin = s.origin.value_or(SnapshotId());
    std::optional<std::int64_t> ended_ms;
    if (s.ended_at) ended_ms = to_ms(*s.ended_at);
    return db.run(sql, s.id, s.team, to_string(s.state), to_string(s.wanted), s.generation, s.template_id,
                  s.template_name, s.template_digest, s.shape.vcpus, s.shape.memory_mib, s.shape.disk_mib,
                  to_json_text(options.metadata), options.allow_internet_access, options.network,
                  options.allow_public_traffic, options.mask_request_host, s.access_token, s.traffic_token,
                  s.timeout_s, to_ms(s.started_at), to_ms(s.end_at), ended_ms, s.reason,
                  s.lifecycle.pause_on_timeout, s.lifecycle.pause_keeps_memory, s.lifecycle.auto_resume,
                  s.policy.idle_pause_s, s.policy.hot_keep_s, s.default_user, s.default_workdir,
                  to_json_text(s.schedule), to_string(s.recovery), origin.sandbox, origin.number,
                  s.egress.policy, s.egress.generation);
  }

  static Result<std::optional<Sandbox>> find(Database& db, const std::string& id) {
    static const std::string sql = fmt::format("SELECT {} FROM sandboxes WHERE id = ?", sandbox_columns);
    return db.row<Sandbox>(sql, read_sandbox, id);
  }

  static std::string update_where(std::string_view changes, std::string_view condition) {
    return fmt::format("UPDATE sandboxes SET {} WHERE id = ?1 AND {} RETURNING {}", changes, condition,
                       sandbox_columns);
  }

  template <class... Values>
  static Result<Sandbox> change(Database& db, const std::string& id, const std::string& sql,
                                const Values&... values) {
    SPACE_TRY(auto changed, db.row<Sandbox>(sql, read_sandbox, id, values...));
    if (changed) return *std::move(changed);
    SPACE_TRY(const auto existing, find(db, id));
    if (!existing) return fail(Code::not_found, "sandbox {} does not exist", id);
    return fail(Code::conflict, "sandbox {} is over or being deleted", id);
  }

  Database database_;
  asio::thread_pool thread_{1};
};

}  // namespace

Result<std::unique_ptr<Repository>> open_sqlite_repository(const std::string& path) {
  SPACE_TRY(auto db, Sqlite::open(path));
  SPACE_CHECK(migrate(db, sqlite_migrations()));
  return std::make_unique<SqliteRepository>(std::move(db));
}

}  // namespace space::store

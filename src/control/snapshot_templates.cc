#include "control/snapshot_templates.h"

#include "base/ids.h"
#include "base/log.h"

namespace space::control {
namespace {

constexpr Millis snapshot_patience{55'000};  // clients give up after 60 s
constexpr int snapshot_attempts = 4;
constexpr Millis snapshot_pause{250};
constexpr Millis answer_patience{10'000};

std::vector<SnapshotId> snapshots_of(const std::vector<store::SnapshotTemplate>& rows) {
  std::vector<SnapshotId> snapshots;
  for (const store::SnapshotTemplate& row : rows) snapshots.push_back(row.snapshot);
  return snapshots;
}

store::SnapshotTemplate row_of(const store::Sandbox& sandbox, const SnapshotId& snapshot,
                               const std::optional<SnapshotName>& name, Wall now) {
  store::SnapshotTemplate row;
  row.id = to_hex(random_bytes(10));
  row.team = sandbox.team;
  if (name) row.name = name->name;
  if (name) row.tag = name->tag;
  row.created_at = now;
  row.snapshot = snapshot;
  row.shape = sandbox.shape;
  row.base_id = sandbox.template_id;
  row.base_name = sandbox.template_name;
  row.base_digest = sandbox.template_digest;
  row.default_user = sandbox.default_user;
  row.default_workdir = sandbox.default_workdir;
  return row;
}

Source source_of(const store::SnapshotTemplate& row, const std::string& team) {
  store::Template shown;
  shown.id = row.id;
  shown.name = row.name;
  shown.digest = row.base_digest;
  shown.shape = row.shape;
  shown.default_user = row.default_user;
  shown.default_workdir = row.default_workdir;
  return {std::move(shown), row.snapshot, row.build, fmt::format("Snapshot '{}'", snapshot_id_of(row, team))};
}

Result<std::vector<SnapshotId>> read_published(const JsonObject& answer) {
  SPACE_TRY(const JsonArray* given, array_member(answer, "snapshots"));
  if (given == nullptr) return fail(Code::internal, "the node's answer has no snapshots");
  std::vector<SnapshotId> snapshots;
  for (const Json& value : *given) {
    if (!value.is_object()) return fail(Code::internal, "the node's snapshots hold something else");
    SPACE_TRY(const std::string sandbox, require_text(value.get_object(), "sandbox"));
    SPACE_TRY(const auto number, require_int(value.get_object(), "number", 1, INT64_MAX));
    snapshots.push_back({sandbox, static_cast<std::uint64_t>(number)});
  }
  return snapshots;
}

}  // namespace

Task<Result<SnapshotId>> take_snapshot(NodeLink& nodes, std::string sandbox, std::string cause) {
  const Deadline deadline = Deadline::after(snapshot_patience);
  const auto node = nodes.current();
  if (!node) co_return fail(Code::unavailable, "No node is connected. Is space-sandboxd running?");
  for (int attempt = 1;; ++attempt) {
    const auto made = co_await node->call("sandbox/snapshot", {{"id", sandbox}, {"cause", cause}}, deadline);
    if (made) {
      SPACE_CO_TRY(const auto number, require_int(*made, "number", 1, INT64_MAX));
      co_return SnapshotId{sandbox, static_cast<std::uint64_t>(number)};
    }
    const bool again = made.error().code == Code::unavailable && !node->closed() && !deadline.passed();
    if (!again || attempt == snapshot_attempts) co_return std::unexpected(made.error());
    co_await sleep_for(snapshot_pause);
  }
}

SnapshotTemplates::Turn::~Turn() {
  if (!turns_) return;
  turns_->busy.erase(sandbox_);
  turns_->changed.notify_all();
}

Task<SnapshotTemplates::Turn> SnapshotTemplates::enter(std::string sandbox) {
  while (turns_->busy.contains(sandbox)) co_await turns_->changed.wait();
  turns_->busy.insert(sandbox);
  co_return Turn(turns_, std::move(sandbox));
}

// A create that says "base" must go on meaning what it meant.
Task<Result<void>> SnapshotTemplates::check_name(SnapshotName name) {
  SPACE_CO_TRY(const auto taken, co_await repository_.find_template(name.name));
  if (taken)
    co_return fail(Code::invalid_argument, "'{}' is the name of a template. Choose another", name.name);
  co_return Result<void>();
}

Task<Result<store::SnapshotTemplate>> SnapshotTemplates::publish(store::Sandbox sandbox,
                                                                 std::optional<SnapshotName> name) {
  if (name) SPACE_CO_CHECK(co_await check_name(*name));
  const Turn turn = co_await enter(sandbox.id);
  SPACE_CO_TRY(const SnapshotId snapshot, co_await take_snapshot(nodes_, sandbox.id, "published"));
  auto stored = co_await repository_.add_snapshot_template(row_of(sandbox, snapshot, name, clock_.wall()));
  if (!stored) {
    spawn(executor_, "withdraw snapshot", withdraw({snapshot}));
    co_return std::unexpected(stored.error());
  }
  log::info("snapshot published",
            {{"sandbox", sandbox.id}, {"number", snapshot.number}, {"template", stored->id}});
  if (name) collect();
  co_return *stored;
}

Task<Result<std::optional<Source>>> SnapshotTemplates::find(store::Team team, TemplateKey key) {
  if (key.tag.empty()) key.tag = default_tag;
  SPACE_CO_TRY(const auto row, co_await repository_.find_snapshot_template(team.id, lower_case(key.name),
                                                                           lower_case(key.tag)));
  if (!row) co_return std::optional<Source>();
  co_return source_of(*row, team.name);
}

Task<Result<void>> SnapshotTemplates::remove(store::Team team, TemplateKey key) {
  SPACE_CO_TRY(const auto removed, co_await repository_.remove_snapshot_template(
                                       team.id, lower_case(key.name), lower_case(key.tag)));
  if (removed.empty())
    co_return fail(Code::not_found, "Snapshot '{}' was not found. GET /snapshots lists those that exist",
                   key.tag.empty() ? key.name : key.name + ":" + key.tag);
  log::info("snapshot deleted", {{"template", removed.front().id}, {"builds", removed.size()}});
  spawn(executor_, "withdraw snapshot", withdraw(snapshots_of(removed)));
  co_return Result<void>();
}

// A hundred sandboxes that end together are one look.
void SnapshotTemplates::collect() {
  collect_again_ = true;
  if (!collecting_) spawn(executor_, "collect snapshots", collect_now());
  collecting_ = true;
}

Task<void> SnapshotTemplates::collect_now() {
  while (std::exchange(collect_again_, false)) {
    const auto removed = co_await repository_.remove_replaced_builds();
    if (removed) co_await withdraw(snapshots_of(*removed));
    if (!removed) log::warn("replaced snapshots not collected", {log::Field(removed.error())});
  }
  collecting_ = false;
}

Task<void> SnapshotTemplates::withdraw(std::vector<SnapshotId> candidates) {
  for (const SnapshotId& snapshot : candidates) co_await withdraw_one(snapshot);
}

// Unless a row stands for it: the same snapshot may have been published twice. What fails here is withdrawn
// by the next reconcile.
Task<void> SnapshotTemplates::withdraw_one(SnapshotId snapshot) {
  const auto node = co_await nodes_.wait(Deadline::after(answer_patience));
  if (!node) co_return;
  const Turn turn = co_await enter(snapshot.sandbox);
  const auto known = co_await repository_.published_snapshots();
  if (!known || known->contains(snapshot)) co_return;
  const auto done =
      co_await node->call("snapshot/withdraw", {{"sandbox", snapshot.sandbox}, {"number", snapshot.number}},
                          Deadline::after(answer_patience));
  if (!done && done.error().code != Code::not_found)
    log::warn("snapshot not withdrawn",
              {{"sandbox", snapshot.sandbox}, {"number", snapshot.number}, log::Field(done.error())});
}

Task<void> SnapshotTemplates::reconcile(NodeSessionPtr session) {
  const auto answer = co_await session->call("snapshot/published", {}, Deadline::after(answer_patience));
  const auto held = answer ? read_published(*answer) : std::unexpected(answer.error());
  const auto known = co_await repository_.published_snapshots();
  if (!held || !known) {
    log::warn("published snapshots not compared", {log::Field(held ? known.error() : held.error())});
    co_return;
  }
  std::vector<SnapshotId> unknown;
  std::set<SnapshotId> missing = *known;
  for (const SnapshotId& snapshot : *held)
    if (missing.erase(snapshot) == 0) unknown.push_back(snapshot);
  for (const SnapshotId& snapshot : missing)
    log::warn("the node lost a published snapshot",
              {{"sandbox", snapshot.sandbox}, {"number", snapshot.number}});
  spawn(executor_, "withdraw snapshots", withdraw(std::move(unknown)));
  collect();
}

}  // namespace space::control

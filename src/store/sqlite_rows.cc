#include "store/sqlite_rows.h"

#include "base/json.h"

namespace space::store {

std::int64_t to_ms(Wall time) {
  return time.time_since_epoch().count();
}
Wall from_ms(std::int64_t ms) {
  return Wall(Millis(ms));
}

std::string to_json_text(const std::map<std::string, std::string>& pairs) {
  JsonObject object;
  for (const auto& [key, value] : pairs) object[key] = value;
  return to_text(object);
}

std::string to_json_text(const std::vector<State>& states) {
  JsonArray array;
  for (const State state : states) array.emplace_back(to_string(state));
  return to_text(array);
}

std::string to_json_text(const std::optional<SnapshotSchedule>& schedule) {
  return schedule ? to_text(to_json(*schedule)) : std::string();
}

namespace {

// The columns of a row from left to right, so that readers and column lists are read side by side.
class Columns {
 public:
  explicit Columns(const Statement& row) : row_(row) {}
  std::string text() { return std::string(row_.text(next_++)); }
  std::int64_t integer() { return row_.integer(next_++); }
  std::optional<std::int64_t> optional_integer() { return row_.optional_integer(next_++); }
  Wall time() { return from_ms(integer()); }

 private:
  const Statement& row_;
  int next_ = 0;
};

Shape read_shape(Columns& columns) {
  Shape shape;
  shape.vcpus = columns.integer();
  shape.memory_mib = columns.integer();
  shape.disk_mib = columns.integer();
  return shape;
}

Result<std::map<std::string, std::string>> read_metadata(const std::string& text) {
  SPACE_TRY(const JsonObject object, parse_json_object(text, "metadata"));
  std::map<std::string, std::string> pairs;
  for (const auto& [key, value] : object) {
    if (!value.is_string()) return fail(Code::internal, "metadata of a stored sandbox is not text");
    pairs.emplace(std::string_view(key), std::string_view(value.get_string()));
  }
  return pairs;
}

// An empty place is none.
std::optional<SnapshotId> read_snapshot_id(Columns& columns) {
  SnapshotId id;
  id.sandbox = columns.text();
  id.number = static_cast<std::uint64_t>(columns.integer());
  return id.sandbox.empty() ? std::nullopt : std::optional(std::move(id));
}

Result<std::optional<SnapshotSchedule>> read_schedule(const std::string& text) {
  if (text.empty()) return std::nullopt;
  SPACE_TRY(const Json json, parse_json(text));
  return schedule_from_json(json);
}

}  // namespace

Template read_template(const Statement& row) {
  Columns columns(row);
  Template record;
  record.id = columns.text();
  record.name = columns.text();
  record.digest = columns.text();
  record.shape = read_shape(columns);
  record.default_user = columns.text();
  record.default_workdir = columns.text();
  record.updated_at = columns.time();
  return record;
}

Result<Sandbox> read_sandbox(const Statement& row) {
  Columns columns(row);
  Sandbox record;
  record.id = columns.text();
  record.team = columns.text();
  const auto state = state_from(columns.text());
  const auto wanted = wanted_from(columns.text());
  if (!state || !wanted) return fail(Code::internal, "sandbox {} is stored in an unknown state", record.id);
  record.state = *state;
  record.wanted = *wanted;
  record.generation = columns.integer();
  record.template_id = columns.text();
  record.template_name = columns.text();
  record.template_digest = columns.text();
  record.shape = read_shape(columns);
  SPACE_TRY(record.options.metadata, read_metadata(columns.text()));
  if (const auto allowed = columns.optional_integer()) record.options.allow_internet_access = *allowed != 0;
  record.options.network = columns.text();
  record.options.allow_public_traffic = columns.integer() != 0;
  record.options.mask_request_host = columns.text();
  record.access_token = columns.text();
  record.traffic_token = columns.text();
  record.timeout_s = columns.integer();
  record.started_at = columns.time();
  record.end_at = columns.time();
  if (const auto ended = columns.optional_integer()) record.ended_at = from_ms(*ended);
  record.reason = columns.text();
  record.lifecycle.pause_on_timeout = columns.integer() != 0;
  record.lifecycle.pause_keeps_memory = columns.integer() != 0;
  record.lifecycle.auto_resume = columns.integer() != 0;
  record.policy.idle_pause_s = columns.optional_integer();
  record.policy.hot_keep_s = columns.optional_integer();
  record.default_user = columns.text();
  record.default_workdir = columns.text();
  SPACE_TRY(record.schedule, read_schedule(columns.text()));
  const auto recovery = recovery_policy_from(columns.text());
  if (!recovery)
    return fail(Code::internal, "sandbox {} is stored with an unknown recovery policy", record.id);
  record.recovery = *recovery;
  record.origin = read_snapshot_id(columns);
  record.egress.policy = columns.text();
  record.egress.generation = columns.integer();
  return record;
}

SnapshotTemplate read_snapshot_template(const Statement& row) {
  Columns columns(row);
  SnapshotTemplate record;
  record.build = columns.integer();
  record.id = columns.text();
  record.team = columns.text();
  record.name = columns.text();
  record.tag = columns.text();
  record.created_at = columns.time();
  record.snapshot = read_snapshot_id(columns).value_or(SnapshotId());
  record.shape = read_shape(columns);
  record.base_id = columns.text();
  record.base_name = columns.text();
  record.base_digest = columns.text();
  record.default_user = columns.text();
  record.default_workdir = columns.text();
  return record;
}

}  // namespace space::store

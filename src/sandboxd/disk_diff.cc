#include "sandboxd/disk_diff.h"

#include <algorithm>
#include <array>

#include "base/ids.h"
#include "base/log.h"
#include "core/capacity.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t vcpus = 1;
constexpr std::int64_t memory_mib = 512;
constexpr Millis close_limit = 10s;
// Of the time left, what the guest does not get for its walk.
constexpr Millis answer_reserve = 3s;
constexpr Millis walk_limit = 10min;
// A path is 4096 bytes at most, of which each is shown as three at most.
constexpr std::size_t path_bytes_max = 3 * 4096;

constexpr std::array<std::string_view, 3> changes_known = {"added", "removed", "changed"};
constexpr std::array<std::string_view, 6> types_known = {"file",   "directory", "symlink",
                                                         "device", "fifo",      "socket"};

Result<std::string> one_of(const JsonObject& object, const char* member,
                           std::span<const std::string_view> known) {
  SPACE_TRY(std::string text, require_text(object, member));
  if (std::ranges::find(known, text) == known.end())
    return fail(Code::invalid_argument, "'{}' is none that is known", member);
  return text;
}

Result<DiskChange> parse_change(const Json& json) {
  const auto* object = json.if_object();
  if (object == nullptr) return fail(Code::invalid_argument, "a change is no object");
  DiskChange change;
  SPACE_TRY(change.path, require_text(*object, "path"));
  if (!change.path.starts_with('/') || change.path.size() > path_bytes_max)
    return fail(Code::invalid_argument, "a path is none");
  SPACE_TRY(change.change, one_of(*object, "change", changes_known));
  SPACE_TRY(change.type, one_of(*object, "type", types_known));
  SPACE_TRY(change.size, require_int(*object, "size", 0, INT64_MAX));
  return change;
}

Result<DiskDiff> parse_answer(const JsonObject& answer, std::size_t limit) {
  SPACE_TRY(const JsonArray* changes, array_member(answer, "changes"));
  if (changes == nullptr || changes->size() > limit)
    return fail(Code::invalid_argument, "'changes' must hold at most {}", limit);
  DiskDiff diff;
  for (const Json& json : *changes) {
    SPACE_TRY(DiskChange change, parse_change(json));
    diff.changes.push_back(std::move(change));
  }
  SPACE_TRY(const auto truncated, bool_member(answer, "truncated"));
  diff.truncated = truncated.value_or(false);
  return diff;
}

Shape shape_of(const DiskDiffWish& wish) {
  return {vcpus, memory_mib, wish.disk_mib};
}

}  // namespace

Result<DiskDiff> parse_disk_diff(const JsonObject& answer, std::size_t limit) {
  auto diff = parse_answer(answer, limit);
  if (!diff)
    return fail(Code::internal, "the answer of the VM that compared is none: {}", diff.error().message);
  return diff;
}

struct DiskDiffs::Work {
  Work(const Executor& executor, DiskDiffWish its_wish, Deadline its_deadline)
      : wish(std::move(its_wish)), deadline(its_deadline), done(executor) {}

  DiskDiffWish wish;
  Deadline deadline;
  std::shared_ptr<Machine> machine;
  std::optional<Result<DiskDiff>> outcome;
  Event done;
};

DiskDiffs::DiskDiffs(Parts parts)
    : parts_(std::move(parts)), turns_(parts_.host.executor, 1), ended_(parts_.host.executor) {}

Task<Result<DiskDiff>> DiskDiffs::run(DiskDiffWish wish, Deadline deadline) {
  SPACE_CO_TRY(auto turn, co_await turns_.enter(deadline));
  SPACE_CO_CHECK(co_await parts_.make_room(wish.team, shape_of(wish), wish.accelerator));
  if (closed_) co_return fail(Code::unavailable, "the node is being shut down");
  const auto work = std::make_shared<Work>(parts_.host.executor, std::move(wish), deadline);
  const auto epoch = std::make_shared<std::uint64_t>(0);
  work->machine = std::make_shared<Machine>(
      parts_.host, new_sandbox_id(),
      ChannelLink::Hooks{[epoch] { return Result<std::uint64_t>(++*epoch); }, [] {}});
  under_way_.insert(work);
  // Its own coroutine: the VM goes, whatever becomes of who asked.
  spawn(parts_.host.executor, "disk diff", carry_out(work, std::move(turn)));
  while (!work->outcome)
    if (!co_await work->done.wait(deadline)) break;
  if (work->outcome) co_return *std::move(work->outcome);
  work->machine->interrupt({Code::deadline, "nobody waits any more"});
  co_return fail(Code::deadline, "the disks were not compared in time");
}

Task<void> DiskDiffs::carry_out(std::shared_ptr<Work> work, Turnstile::Place turn) {
  const Turnstile::Place held = std::move(turn);
  auto outcome = co_await compare(work);
  under_way_.erase(work);
  work->outcome = std::move(outcome);
  work->done.notify_all();
  ended_.notify_all();
}

Task<Result<DiskDiff>> DiskDiffs::compare(std::shared_ptr<Work> work) {
  const Monotonic begun = system_clock().monotonic();
  const auto ms_since_start = [begun] {
    return std::chrono::duration_cast<Millis>(system_clock().monotonic() - begun).count();
  };
  PlanOutcome outcome = co_await boot(work);
  const std::int64_t boot_ms = ms_since_start();
  Result<JsonObject> answer = JsonObject();
  if (outcome.started) {
    const Millis time = std::clamp(work->deadline.left() - answer_reserve, Millis(1), Millis(walk_limit));
    answer = co_await work->machine->diff(work->wish.limit, time, work->deadline);
    outcome.unwound = co_await unwind(undo_everything(), *work->machine);
  }
  if (!outcome.unwound)
    log::warn("a VM that compared was not removed", {log::Field(outcome.unwound.error())});
  SPACE_CO_CHECK(outcome.started);
  if (!answer) co_return fail(Code::unavailable, "the disks were not compared: {}", answer.error().message);
  auto diff = parse_disk_diff(*answer, work->wish.limit);
  if (diff)
    log::info("disks compared", {{"sandbox", work->wish.disks.sandbox},
                                 {"changes", diff->changes.size()},
                                 {"boot_ms", boot_ms},
                                 {"ms", ms_since_start()}});
  co_return diff;
}

Task<PlanOutcome> DiskDiffs::boot(std::shared_ptr<Work> work) {
  const auto turn = co_await parts_.starts.enter(work->deadline);
  if (!turn) co_return PlanOutcome{std::unexpected(turn.error()), {}};
  const DiskDiffWish& wish = work->wish;
  StartPlan plan = plan_cold_start({wish.template_digest, shape_of(wish), wish.accelerator});
  for (Step& step : plan)
    if (auto* launch = std::get_if<effect::LaunchVmm>(&step.effect)) launch->disks = wish.disks;
  co_return co_await run_plan(std::move(plan), *work->machine);
}

Task<void> DiskDiffs::close() {
  closed_ = true;
  for (const auto& work : under_way_)
    work->machine->interrupt({Code::unavailable, "the node is being shut down"});
  const Deadline deadline = Deadline::after(close_limit);
  while (!under_way_.empty())
    if (!co_await ended_.wait(deadline)) break;
}

std::set<std::string> DiskDiffs::teams() const {
  std::set<std::string> teams;
  for (const auto& work : under_way_) teams.insert(work->wish.team);
  return teams;
}

std::int64_t DiskDiffs::committed_mib() const {
  std::int64_t committed = 0;
  for (const auto& work : under_way_) committed += memory_cost_mib(shape_of(work->wish));
  return committed;
}

}  // namespace space

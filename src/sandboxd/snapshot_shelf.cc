#include "sandboxd/snapshot_shelf.h"

#include <algorithm>

#include "base/log.h"

namespace space {
namespace {

using namespace std::chrono_literals;

constexpr Millis verb_limit = 10s;
constexpr Millis remove_limit = 30s;
// Between two looks, where nobody asks for one.
constexpr Millis look_pause_max = 30s;
constexpr Millis look_pause_min = 100ms;

bool needs(const SandboxRecord& record, const SnapshotId& snapshot) {
  if (record.id == snapshot.sandbox) return false;
  if (half_built(record.state)) return record.origin == snapshot || record.restored_from == snapshot;
  return record.restored_from == snapshot && expects_vmm(record.state, record.memory);
}

}  // namespace

SnapshotShelf::SnapshotShelf(Parts parts) : parts_(std::move(parts)), look_(parts_.host.executor) {}

void SnapshotShelf::take_over(const std::vector<SnapshotRecord>& left, const KernelHoldings& held) {
  for (const SnapshotRecord& snapshot : left) {
    const auto numbers = held.snapshots.find(snapshot.sandbox);
    if (numbers != held.snapshots.end() &&
        std::ranges::find(numbers->second, snapshot.number) != numbers->second.end()) {
      left_.insert_or_assign(snapshot.id(), snapshot);
      continue;
    }
    log::warn("snapshot is gone", {{"sandbox", snapshot.sandbox}, {"number", snapshot.number}});
    if (const auto forgotten = parts_.journal.commit({.removed = {snapshot.id()}}); !forgotten)
      log::error("journal write failed", {log::Field(forgotten.error())});
  }
}

void SnapshotShelf::leave_behind(SnapshotRecord snapshot) {
  SnapshotId id = snapshot.id();
  left_.insert_or_assign(std::move(id), std::move(snapshot));
}

const SnapshotRecord* SnapshotShelf::find(const SnapshotId& snapshot) const {
  if (const auto left = left_.find(snapshot); left != left_.end()) return &left->second;
  for (const auto& sandbox : parts_.sandboxes()) {
    if (sandbox->record().id != snapshot.sandbox) continue;
    const auto found = std::ranges::find(sandbox->snapshots(), snapshot.number, &SnapshotRecord::number);
    if (found != sandbox->snapshots().end()) return &*found;
  }
  return nullptr;
}

std::vector<std::string> SnapshotShelf::used_by(const SnapshotId& snapshot) const {
  std::vector<std::string> users;
  for (const auto& sandbox : parts_.sandboxes())
    if (needs(sandbox->record(), snapshot)) users.push_back(sandbox->record().id);
  std::ranges::sort(users);
  return users;
}

bool SnapshotShelf::is_needed(const SnapshotId& snapshot) const {
  return lent_.contains(snapshot) || is_published(snapshot) || parts_.pool_sources().contains(snapshot) ||
         std::ranges::any_of(parts_.sandboxes(), [&](const std::shared_ptr<Sandbox>& sandbox) {
           return needs(sandbox->record(), snapshot);
         });
}

bool SnapshotShelf::is_published(const SnapshotId& snapshot) const {
  const SnapshotRecord* found = find(snapshot);
  return found != nullptr && found->published;
}

std::vector<SnapshotId> SnapshotShelf::published() const {
  std::set<SnapshotId> found;
  for (const auto& [id, snapshot] : left_)
    if (snapshot.published) found.insert(id);
  for (const auto& sandbox : parts_.sandboxes())
    for (const SnapshotRecord& snapshot : sandbox->snapshots())
      if (snapshot.published) found.insert(snapshot.id());
  return {found.begin(), found.end()};
}

Task<Result<void>> SnapshotShelf::withdraw(SnapshotId snapshot) {
  const SnapshotRecord* found = find(snapshot);
  if (found == nullptr) co_return Result<void>();
  if (found->published) {
    SnapshotRecord withdrawn = *found;
    withdrawn.published = false;
    if (const auto left = left_.find(snapshot); left != left_.end()) {
      SPACE_CO_CHECK(parts_.journal.commit({.snapshots = {withdrawn}}));
      left->second = std::move(withdrawn);
    } else {
      for (const auto& sandbox : parts_.sandboxes())
        if (sandbox->record().id == snapshot.sandbox)
          SPACE_CO_CHECK(sandbox->edit_snapshot(snapshot.number, {.published = false}));
    }
  }
  co_await parts_.drain_pool(snapshot);
  look();
  co_return Result<void>();
}

// Of a sandbox that is there still.
bool SnapshotShelf::is_due(const SnapshotRecord& snapshot, Wall now) const {
  const bool is_over = snapshot.cause == SnapshotCause::published ? !snapshot.published
                       : snapshot.cause == SnapshotCause::fork
                           ? now - snapshot.created_at >= parts_.fork_keep && snapshot.name.empty()
                           : false;
  return is_over && !snapshot.pinned && !is_needed(snapshot.id());
}

// Out of the journal first: what a crash leaves on the pool is then known to nobody and removed.
Task<void> SnapshotShelf::remove_left() {
  std::erase_if(left_, [this](const auto& entry) {
    const SnapshotId& id = entry.first;
    if (is_needed(id)) return false;
    if (const auto forgotten = parts_.journal.commit({.removed = {id}}); !forgotten) {
      log::error("journal write failed", {log::Field(forgotten.error())});
      return false;
    }
    doomed_.insert(id);
    return true;
  });
  const std::set<SnapshotId> going = doomed_;
  for (const SnapshotId& id : going) {
    const auto removed =
        co_await parts_.host.noded.snapshot_remove(id.sandbox, id.number, Deadline::after(verb_limit));
    if (removed) {
      doomed_.erase(id);
      log::info("snapshot removed that nobody needs any more",
                {{"sandbox", id.sandbox}, {"number", id.number}});
    } else {
      log::warn("snapshot not removed, will be repeated",
                {{"sandbox", id.sandbox}, log::Field(removed.error())});
    }
  }
}

Task<void> SnapshotShelf::remove_due_of(std::shared_ptr<Sandbox> sandbox) {
  const Wall now = system_clock().wall();
  std::vector<std::uint64_t> due;
  for (const SnapshotRecord& snapshot : sandbox->snapshots())
    // What its own sandbox needs still is looked at again.
    if (is_due(snapshot, now) && !sandbox->needs_itself(snapshot.number)) due.push_back(snapshot.number);
  for (const std::uint64_t number : due) {
    const auto removed = co_await sandbox->remove_snapshot(number, Deadline::after(remove_limit));
    if (!removed)
      log::debug("snapshot stays for now",
                 {{"sandbox", sandbox->record().id}, {"number", number}, log::Field(removed.error())});
  }
}

Task<void> SnapshotShelf::collect() {
  if (std::exchange(collecting_, true)) co_return;
  co_await remove_left();
  for (const auto& sandbox : parts_.sandboxes())
    if (!sandbox->being_deleted()) co_await remove_due_of(sandbox);
  collecting_ = false;
}

Task<void> SnapshotShelf::run() {
  const Millis pause = std::clamp(Millis(parts_.fork_keep) / 4, look_pause_min, look_pause_max);
  while (true) {
    co_await collect();
    (void)co_await look_.wait(Deadline::after(pause));
  }
}

}  // namespace space

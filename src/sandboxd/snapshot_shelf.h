// SnapshotShelf: the snapshots of this node as those see them who begin from one: where each is, who needs
// it, which are published. Removes what was made for a fork or published, or outlived its sandbox, once
// nobody needs it. What a sandbox keeps for itself is its own affair (sandbox_snapshots.cc). Belongs to the
// loop.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sandboxd/sandbox.h"

namespace space {

class SnapshotShelf {
 public:
  // All outlive it.
  struct Parts {
    Machine::Host host;
    Journal& journal;
    std::function<std::vector<std::shared_ptr<Sandbox>>()> sandboxes;  // also those being deleted
    std::function<std::set<SnapshotId>()> pool_sources;                // that parked VMs read from
    std::function<Task<void>(SnapshotId)> drain_pool;                  // nothing is parked of it any more
    std::chrono::seconds fork_keep;  // how long others may begin from what was made for a fork
  };
  explicit SnapshotShelf(Parts parts);

  // Once, at the start: those that were written down of sandboxes that are no more. Those that the pool has
  // not are forgotten.
  void take_over(const std::vector<SnapshotRecord>& left, const KernelHoldings& held);
  // One of a sandbox that is being deleted stays for those who need it. Its row is in the journal.
  void leave_behind(SnapshotRecord snapshot);

  // nullptr: there is none. Valid until the next wait.
  const SnapshotRecord* find(const SnapshotId& snapshot) const;
  // Other sandboxes that began from it and need it: their memory still comes from it, or their start has not
  // ended. Ordered by id.
  std::vector<std::string> used_by(const SnapshotId& snapshot) const;
  // By anybody but its own sandbox: used, parked, borrowed or published.
  bool is_needed(const SnapshotId& snapshot) const;
  std::vector<SnapshotId> published() const;  // in order
  bool is_published(const SnapshotId& snapshot) const;
  // Nobody begins from it by its name any more; it goes once nobody needs it. Also an unknown one.
  Task<Result<void>> withdraw(SnapshotId snapshot);

  // Stays while the loan lives: somebody is about to begin from it.
  class Loan {
   public:
    Loan(SnapshotShelf* shelf, SnapshotId snapshot) : shelf_(shelf), snapshot_(std::move(snapshot)) {
      ++shelf_->lent_[snapshot_];
    }
    Loan(Loan&& other) noexcept
        : shelf_(std::exchange(other.shelf_, nullptr)), snapshot_(std::move(other.snapshot_)) {}
    Loan& operator=(Loan&&) = delete;
    ~Loan() {
      if (shelf_ != nullptr && --shelf_->lent_[snapshot_] == 0) shelf_->lent_.erase(snapshot_);
    }

   private:
    SnapshotShelf* shelf_;
    SnapshotId snapshot_;
  };
  Loan lend(SnapshotId snapshot) { return {this, std::move(snapshot)}; }

  // Removes what is due. Looks again by itself for ever (run), and when somebody may have let go (look).
  Task<void> collect();
  Task<void> run();
  void look() { look_.notify_all(); }

 private:
  bool is_due(const SnapshotRecord& snapshot, Wall now) const;
  Task<void> remove_left();
  Task<void> remove_due_of(std::shared_ptr<Sandbox> sandbox);

  Parts parts_;
  std::map<SnapshotId, SnapshotRecord> left_;  // their sandboxes are no more
  std::set<SnapshotId> doomed_;                // that only the pool still has
  std::map<SnapshotId, std::int64_t> lent_;
  bool collecting_ = false;
  Event look_;
};

}  // namespace space

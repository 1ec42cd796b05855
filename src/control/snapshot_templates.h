// SnapshotTemplates: snapshots that a team creates sandboxes from, by name or id, whatever becomes of the
// sandbox they were taken of.
//
// A row says what a name means; the node keeps what the row stands for as long as it is published. A row is
// removed before its snapshot is withdrawn, so a crash leaves a published snapshot that no row knows, and the
// next reconcile withdraws it. Belongs to the loop.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "control/node_link.h"
#include "control/source.h"
#include "control/template_key.h"
#include "store/repository.h"

namespace space::control {

// Takes a snapshot that others begin as; `cause` as the node calls it. A guest that did not stand still for
// it is asked again a few times: on a busy machine the next moment does. Errors: the node's.
Task<Result<SnapshotId>> take_snapshot(NodeLink& nodes, std::string sandbox, std::string cause);

class SnapshotTemplates {
 public:
  SnapshotTemplates(const Executor& executor, store::Repository& repository, NodeLink& nodes,
                    const Clock& clock)
      : executor_(executor),
        repository_(repository),
        nodes_(nodes),
        clock_(clock),
        turns_(std::make_shared<Turns>(executor)) {}

  // Takes a snapshot of `sandbox`, which goes on as it is, and gives it `name`; nullopt: none. A name used
  // again means the new one from now on. invalid_argument: a template of the operator has the name;
  // unavailable: no node, or the guest did not stand still for it; others as the node says.
  Task<Result<store::SnapshotTemplate>> publish(store::Sandbox sandbox, std::optional<SnapshotName> name);
  // What a create from `key` begins as; nullopt: the team has no such snapshot.
  Task<Result<std::optional<Source>>> find(store::Team team, TemplateKey key);
  // not_found; conflict: sandboxes that live began as it. Without a tag: all of the template.
  Task<Result<void>> remove(store::Team team, TemplateKey key);

  // Withdraws what newer builds replaced, once no sandbox that lives began as it. Returns at once.
  void collect();
  // Withdraws what the node publishes and no row knows. Returns once the node told what it has.
  Task<void> reconcile(NodeSessionPtr session);

 private:
  // Sandboxes whose snapshots are being published or withdrawn: one thing at a time for each, or what is
  // withdrawn for one row could be what is being published for another.
  struct Turns {
    explicit Turns(const Executor& executor) : changed(executor) {}
    std::set<std::string> busy;
    Event changed;
  };
  // Shares them: a task may be ended by its loop after everything else is gone.
  class Turn {
   public:
    Turn(std::shared_ptr<Turns> turns, std::string sandbox)
        : turns_(std::move(turns)), sandbox_(std::move(sandbox)) {}
    Turn(Turn&& other) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    std::shared_ptr<Turns> turns_;
    std::string sandbox_;
  };
  Task<Turn> enter(std::string sandbox);
  Task<Result<void>> check_name(SnapshotName name);
  Task<void> collect_now();
  Task<void> withdraw(std::vector<SnapshotId> candidates);
  Task<void> withdraw_one(SnapshotId snapshot);

  Executor executor_;
  store::Repository& repository_;
  NodeLink& nodes_;
  const Clock& clock_;
  std::shared_ptr<Turns> turns_;
  bool collecting_ = false;
  bool collect_again_ = false;
};

}  // namespace space::control

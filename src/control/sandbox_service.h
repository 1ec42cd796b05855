// SandboxService: the life of sandboxes as the control plane decides it.
//
// What is wanted is written down before the node hears of it; what the node reports is written down before a
// client does. The rows of everything that is not over are also kept in memory: timeouts and the data plane
// ask them for each request. Crash at any point: `start` and `reconcile` finish what was begun. Belongs to
// the loop.
//
// Pause, stop and resume are moves: one at a time for a sandbox, carried out whoever asked for it stays or
// leaves. Who comes meanwhile waits for its end, so a hundred requests start one resume.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/api_error.h"
#include "control/create_request.h"
#include "control/lifetime.h"
#include "control/node_link.h"
#include "control/sandbox_forks.h"
#include "control/snapshot_requests.h"
#include "control/snapshot_templates.h"
#include "control/timeouts.h"
#include "store/repository.h"

namespace space::control {

struct ServiceLimits {
  std::int64_t timeout_max_s = never_s;  // of a life that can be asked for; never_s: any
  Millis node_patience{5000};            // how long a request waits for a node that is just coming back
  Millis create_patience{50'000};        // clients give up after 60 s
  Millis delete_patience{20'000};        // then the answer is sent and the deletion goes on
  Millis transition_patience{30'000};    // how long a request waits for what others began
  Millis move_patience{50'000};          // of a pause, stop or resume
  Millis pool_patience{250};             // for a parked VM; then the create goes without
  Millis fork_patience{240'000};         // of all sandboxes that one fork makes
  EgressMode egress_default = EgressMode::allow_all;  // of a sandbox whose creator says nothing
  bool egress_internal = false;  // whether an API key may open addresses that are closed to sandboxes
};

// What the data plane must know of a sandbox.
struct DataPlaneTarget {
  std::string traffic_token;      // needed on all ports but the daemon's; "" = public
  std::string mask_request_host;  // "" = none
  bool awake = false;             // false: see `awaken`
};

// A sandbox that was addressed, and whether that brought it back.
struct Connected {
  store::Sandbox row;
  bool resumed = false;
};

struct RolledBack {
  store::Sandbox row;
  std::int64_t snapshot = 0;  // what it is now
  std::int64_t undo = 0;      // what it was before
};

// A policy in force, and how many live connections it ended.
struct EgressChanged {
  store::Egress egress;
  std::int64_t cut = 0;
};

// What becomes of a policy and of what E2B shows of it; the generation is the node's to say.
using EgressEditor = std::function<Result<store::EgressChange>(const store::Sandbox&)>;

struct EgressState {
  store::Sandbox row;
  JsonObject object;  // as its node has it; empty: no node
  JsonObject stats;   // of its gateway; empty: none
};

// A sandbox, and what the node said of it; empty when it said nothing.
struct Observed {
  store::Sandbox row;
  JsonObject answer;
};

class SandboxService final : public NodeObserver {
 public:
  SandboxService(const Executor& executor, store::Repository& repository, NodeLink& nodes, const Clock& clock,
                 ServiceLimits limits);

  // Once, before anything else: takes over what an earlier run left.
  Task<Result<void>> start();
  // Ends what is due, for ever.
  Task<void> run_timeouts();
  void expire_due();

  // sandbox_create.cc.
  Task<ApiResult<store::Sandbox>> create(store::Team team, CreateRequest request);

  // Of a team's sandboxes. not_found: unknown, another team's, or over (then with the reason).
  Task<Result<store::Sandbox>> find(std::string team, std::string id);
  // From now on; cut to the maximum. conflict: it rests.
  Task<Result<store::Sandbox>> set_timeout(std::string team, std::string id, std::int64_t timeout_s);
  // Returns once nothing of it is left on the node, or with the deletion promised and under way.
  Task<Result<void>> remove(std::string team, std::string id);

  // sandbox_moves.cc. All wait for what is under way already; conflict: for too long, or as said.
  // Brings it back when it rests. Never shortens the life it has. conflict also: it is being killed.
  Task<Result<Connected>> connect(std::string team, std::string id, ConnectRequest request);
  // conflict: it runs.
  Task<Result<Connected>> resume(std::string team, std::string id, ConnectRequest request);
  // conflict: it rests already.
  Task<Result<void>> pause(std::string team, std::string id, bool keep_memory);
  // Keeps its disk only, from any state; stopped already is fine.
  Task<Result<void>> stop(std::string team, std::string id);
  // For the data plane: returns once it can be reached. not_found: it rests and its creator did not let
  // requests wake it, or it is not there.
  Task<Result<void>> awaken(std::string id, Deadline deadline);

  // sandbox_forks.cc. As many new sandboxes as asked for, each there or not by itself, in the state that the
  // sandbox or its snapshot is in; with what it has of metadata, network, lifecycle and schedule, and with
  // ids and tokens of their own. The sandbox itself goes on as it was. conflict: it rests and only one that
  // runs was meant, or a snapshot that nothing can begin as.
  Task<Result<ForkResults>> fork(store::Team team, std::string id, ForkRequest request);
  // A snapshot of it as a template of the team; nullopt: one without a name. See SnapshotTemplates.
  Task<Result<store::SnapshotTemplate>> publish(std::string team, std::string id,
                                                std::optional<SnapshotName> name);
  SnapshotTemplates& snapshot_templates() { return snapshot_templates_; }

  // sandbox_rollback.cc. In place: the id and the tokens stay; also of one that failed. conflict also: a
  // snapshot that cannot be used here; not_found also: no such snapshot of it, or no rollback to take back.
  // Who asks for what is under way already gets the answer of that one.
  Task<Result<RolledBack>> rollback(std::string team, std::string id, RollbackRequest request);
  // sandbox_recovery.cc. Of one that failed and whose disk is kept; returns when it runs. Nothing happens to
  // one that did not fail.
  Task<Result<void>> recover(std::string team, std::string id);

  // sandbox_snapshots.cc. In the node's words (api/node-rpc.md); also of a sandbox that failed, but for
  // making one. not_found also: no such snapshot of it. conflict: it is needed, or as the node says.
  Task<Result<JsonObject>> snapshot(std::string team, std::string id, SnapshotRequest request);
  Task<Result<JsonObject>> snapshots(std::string team, std::string id, bool measure);
  Task<Result<void>> remove_snapshot(std::string team, std::string id, std::int64_t number);
  Task<Result<JsonObject>> change_snapshot(std::string team, std::string id, std::int64_t number,
                                           SnapshotChange change);
  Task<Result<JsonObject>> history(std::string team, std::string id);
  Task<Result<JsonObject>> diff(std::string team, std::string id, DiffQuery query);
  Task<Result<store::Sandbox>> set_schedule(std::string team, std::string id,
                                            std::optional<SnapshotSchedule> schedule);
  Task<Result<store::Sandbox>> set_recovery(std::string team, std::string id, RecoveryPolicy policy);

  // sandbox_egress.cc. In any state. In force when it returns; after an error the old policy is in force,
  // here and there. conflict also: `running_only` and it rests, or another change takes too long.
  Task<Result<EgressChanged>> change_egress(std::string team, std::string id, EgressEditor edit,
                                            bool running_only);
  Task<Result<EgressState>> egress(std::string team, std::string id);
  // What its gateway says; `request` as the node takes it but for the id.
  Task<Result<JsonObject>> egress_test(std::string team, std::string id, JsonObject request);
  Task<Result<JsonObject>> egress_log(std::string team, std::string id, JsonObject request);

  // sandbox_extras.cc.
  Task<Result<store::PausePolicy>> set_policy(std::string team, std::string id, store::PausePolicy policy);
  Task<Result<JsonObject>> pools();
  Task<Result<void>> set_pool(std::string digest, std::optional<std::int64_t> target);

  // sandbox_observation.cc. What the node knows, in its own words (api/node-rpc.md).
  Task<Result<Observed>> stats(std::string team, std::string id);
  Task<Result<Observed>> isolation(std::string team, std::string id);
  // Also without a node, and of one that failed and is kept.
  Task<Result<Observed>> inspect(std::string team, std::string id);
  Task<Result<std::vector<Observed>>> all_stats(std::string team);  // of those that run
  Task<Result<JsonObject>> logs(std::string team, JsonObject request);

  // nullopt: not here. Any caller: the data plane has no teams.
  std::optional<DataPlaneTarget> data_plane_target(const std::string& id) const;

  // Rows of those that live, for searches: by id, and the next in the order of ids ("": the first). nullptr:
  // none. Valid until the next co_await.
  const store::Sandbox* live_row(const std::string& id) const;
  const store::Sandbox* live_row_after(const std::string& id) const;
  std::size_t live_count() const { return live_.size(); }

  Task<Result<void>> reconcile(NodeSessionPtr session) override;
  Task<void> follow(NodeSessionPtr session) override;

  const ServiceLimits& limits() const { return limits_; }

 private:
  struct Live;
  using LivePtr = std::shared_ptr<Live>;
  struct NodeReport {  // one sandbox object or event of the node
    std::string id;
    State state;  // as clients are told: a rest that any request ends is none
    std::string reason;
    std::optional<store::PausePolicy> policy = {};
    std::optional<std::optional<SnapshotSchedule>> schedule = {};
    std::optional<RecoveryPolicy> recovery = {};
    std::optional<std::int64_t> egress_generation = {};
    bool disk_kept = false;    // of one that failed
    bool awaits_init = false;  // of one that recovers: it boots once it is given its token
  };
  struct ForkRun;
  struct Move {
    Wanted to = Wanted::running;
    ConnectRequest request = {};                   // of one that resumes
    std::optional<RollbackRequest> rollback = {};  // it resumes as something else
    enum class Recovery : unsigned char { none, awaited, asked } recovery = Recovery::none;
  };

  Task<Result<JsonObject>> ask_node(std::string call, JsonObject request, Deadline deadline);
  // Tells the node that a client called; nobody waits for it.
  void note_call(const std::string& id);
  LivePtr find_live(const std::string& team, const std::string& id) const;
  // Also one that failed and whose disk is kept; `running` finds the others.
  Task<Result<LivePtr>> kept(std::string team, std::string id);
  Task<Result<LivePtr>> running(std::string team, std::string id);
  Task<Result<store::Egress>> choose_egress(std::string team, EgressWish wish, Source source);
  struct EgressRun;
  Task<void> run_egress_change(LivePtr live, store::EgressChange change, std::shared_ptr<EgressRun> run);
  Task<Result<EgressChanged>> carry_out_egress(LivePtr live, store::EgressChange change);
  // Of `generation`; nothing happens once the row has another.
  Task<void> tell_egress(LivePtr live, std::int64_t generation);
  store::Sandbox new_row(const store::Team& team, const CreateRequest& request) const;
  // A snapshot template, or one of the operator's templates.
  Task<Result<std::optional<Source>>> find_source(store::Team team, TemplateKey key, bool snapshot);
  Task<ApiResult<Source>> resolve(store::Team team, std::string name);
  Task<std::string> choose_id(Source source);
  Task<ApiResult<store::Sandbox>> start_new(store::Sandbox row, Source source, CreateRequest::Env env,
                                            Millis patience);
  store::Sandbox child_of(const store::Sandbox& parent, std::int64_t timeout_s) const;
  Task<Result<SnapshotId>> snapshot_to_fork(LivePtr live, std::optional<std::int64_t> number);
  Task<void> make_children(std::shared_ptr<ForkRun> run);
  // Repeats the call to a node that came back, until it answers or `deadline`.
  Task<Result<JsonObject>> ask_again(std::string call, JsonObject request, Deadline deadline);
  Task<Result<store::Sandbox>> keep_running(LivePtr live);
  Task<ApiError> fail_create(LivePtr live, Source source, Error error);
  Task<Result<store::Sandbox>> move_end(LivePtr live, Wall end_at);
  Task<Result<void>> settle(LivePtr live);
  Task<Result<void>> ready_to_move(LivePtr live);
  void begin(LivePtr live, Move move);
  Task<void> run_move(LivePtr live, Move move);
  Task<Result<void>> carry_out(LivePtr live, Move move);
  Task<Result<void>> after_refusal(LivePtr live, Error refusal);
  Task<Result<void>> after_answer(LivePtr live, JsonObject object, const Move& move);
  Task<Result<void>> carry_out_rollback(LivePtr live, Move move);
  Task<Result<void>> carry_out_recovery(LivePtr live, Move move);
  Millis patience_of(const Move& move) const;
  Task<Result<store::Sandbox>> finished(LivePtr live, Move move);
  Task<Result<Connected>> bring_back(LivePtr live, ConnectRequest request);
  Task<Result<void>> record(LivePtr live, State state, std::int64_t timeout_s);
  Task<void> watch(LivePtr live, Millis first_pause);
  void rest(const LivePtr& live);
  JsonObject move_request(const LivePtr& live, const Move& move) const;
  Task<void> end(std::string id, std::string reason);
  Task<void> converge_deletion(LivePtr live);
  Task<void> bury(LivePtr live, State state, std::string reason);
  Task<bool> remove_from_node(std::string id);
  Task<void> remove_orphan(std::string id);
  Task<void> compare(NodeReport report);
  Task<void> follow_node(LivePtr live, State observed);
  Task<void> refresh(std::string id);
  Task<void> handle_event(NodeReport report);
  Task<void> follow_recovery(LivePtr live, NodeReport report);
  Task<void> keep_failed(LivePtr live, std::string reason);
  Task<void> tell_policy(LivePtr live);
  Task<void> tell_schedule(LivePtr live);
  Task<void> tell_recovery(LivePtr live);
  void tell_what_differs(const LivePtr& live, const NodeReport& report);
  void tell_lost_egress(const LivePtr& live, const NodeReport& report);
  static Result<NodeReport> read_report(const Json& value);
  void forget(const LivePtr& live);
  void arm(const store::Sandbox& row);
  void arm_not_before(const LivePtr& live, Millis pause);

  Executor executor_;
  store::Repository& repository_;
  NodeLink& nodes_;
  const Clock& clock_;
  ServiceLimits limits_;
  std::map<std::string, LivePtr> live_;
  SnapshotTemplates snapshot_templates_;
  Timeouts timeouts_;
  Event timeouts_changed_;
};

}  // namespace space::control

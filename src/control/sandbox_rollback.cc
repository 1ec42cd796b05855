// SandboxService: rollback, a resume as something else.
//
// What is to be brought back is not in the row: after a crash of this process in the middle the node has
// either heard of it, and goes on at the snapshot, or not, and the sandbox goes on as it was. Its answer is
// the same object either way.
#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {

Task<Result<RolledBack>> SandboxService::rollback(std::string team, std::string id, RollbackRequest request) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  const std::uint64_t before = live->moves;
  // One that failed may be fine again as what it was.
  if (const auto ready = co_await ready_to_move(live);
      !ready && (!is_failed(live->row.state) || live->over || is_deletion(live->row.wanted)))
    co_return std::unexpected(ready.error());
  // The one that we waited for was ours too, or each of a hundred would keep and drop what the others made.
  const bool done_meanwhile = live->moves != before && live->rollback == request;
  if (done_meanwhile && live->move_failed) co_return std::unexpected(live->move_error);
  if (!done_meanwhile) {
    SPACE_CO_CHECK(
        co_await finished(live, {.request = {.timeout_s = live->row.timeout_s}, .rollback = request}));
    SPACE_CO_CHECK(co_await settle(live));
  }
  co_return RolledBack{live->row, live->rolled_back_to, live->undo};
}

// Asked once: an undo that is repeated is none. Of a node that was lost in the middle, what it has when it is
// back counts, and reconcile or a watch finds that.
Task<Result<void>> SandboxService::carry_out_rollback(LivePtr live, Move move) {
  live->keeps_end = serves(live->row.state);
  SPACE_CO_TRY(live->row,
               co_await repository_.set_state(live->row.id, {.state = way_to(move.to), .wanted = move.to}));
  timeouts_.remove(live->row.id);
  JsonObject request = move_request(live, move);
  request.erase("boot");
  if (move.rollback->number)
    request["number"] = *move.rollback->number;
  else
    request["undo"] = true;
  const auto node = co_await nodes_.wait(Deadline::after(limits_.node_patience));
  if (!node) co_return fail(Code::unavailable, "No node is connected. Is space-sandboxd running?");
  const auto answer =
      co_await node->call("sandbox/rollback", std::move(request), Deadline::after(patience_of(move)));
  if (!answer && node->closed())
    co_return fail(Code::unavailable,
                   "The node was lost during the rollback. GET /v1/sandboxes/{}/history (`space history`) "
                   "tells whether it was made",
                   live->row.id);
  if (!answer) co_return co_await after_refusal(live, answer.error());
  const auto object = object_member(*answer, "sandbox");
  const auto undo = require_int(*answer, "undo", 1, INT64_MAX);
  if (!object || *object == nullptr || !undo)
    co_return co_await after_refusal(live, {Code::internal, "the node did not say what it rolled back"});
  const auto head = int_member(**object, "head", 0, INT64_MAX);
  live->rolled_back_to = move.rollback->number.value_or(head ? head->value_or(0) : 0);
  live->undo = *undo;
  co_return co_await after_answer(live, **object, move);
}

}  // namespace space::control

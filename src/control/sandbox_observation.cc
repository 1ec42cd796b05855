// SandboxService: what the node knows of running sandboxes, for their team's eyes only.
#include "base/log.h"
#include "control/live_sandbox.h"

namespace space::control {
namespace {

constexpr Millis answer_patience{10'000};
constexpr std::size_t ids_per_call = 1000;

}  // namespace

Task<Result<JsonObject>> SandboxService::ask_node(std::string call, JsonObject request, Deadline deadline) {
  const auto node = co_await nodes_.wait(deadline.at_most(limits_.node_patience));
  if (!node) co_return fail(Code::unavailable, "No node is connected. Is space-sandboxd running?");
  co_return co_await node->call(std::move(call), std::move(request), deadline);
}

Task<Result<Observed>> SandboxService::stats(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  SPACE_CO_TRY(JsonObject stats,
               co_await ask_node("sandbox/stats", {{"id", id}}, Deadline::after(answer_patience)));
  co_return Observed{live->row, std::move(stats)};
}

Task<Result<Observed>> SandboxService::isolation(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await running(team, id));
  SPACE_CO_TRY(JsonObject isolation,
               co_await ask_node("sandbox/isolation", {{"id", id}}, Deadline::after(answer_patience)));
  co_return Observed{live->row, std::move(isolation)};
}

Task<Result<Observed>> SandboxService::inspect(std::string team, std::string id) {
  SPACE_CO_TRY(const LivePtr live, co_await kept(team, id));
  const auto node = nodes_.current();
  auto object = node ? co_await node->call("sandbox/get", {{"id", id}}, Deadline::after(answer_patience))
                     : fail(Code::unavailable, "No node is connected");
  co_return Observed{live->row, object ? *std::move(object) : JsonObject()};
}

Task<Result<std::vector<Observed>>> SandboxService::all_stats(std::string team) {
  std::vector<Observed> all;
  for (const auto& [id, live] : live_)
    if (live->row.team == team && !is_deletion(live->row.wanted) && serves(live->row.state))
      all.push_back({live->row, {}});
  for (std::size_t from = 0; from < all.size(); from += ids_per_call) {
    const std::span part = std::span(all).subspan(from, std::min(ids_per_call, all.size() - from));
    JsonArray ids;
    for (const Observed& one : part) ids.emplace_back(one.row.id);
    SPACE_CO_TRY(const JsonObject answer,
                 co_await ask_node("stats", {{"ids", std::move(ids)}}, Deadline::after(answer_patience)));
    std::map<std::string, const JsonObject*> by_id;
    if (const auto given = array_member(answer, "sandboxes"); given && *given)
      for (const Json& value : **given)
        if (const auto* object = value.if_object())
          if (const auto id = text_member(*object, "id"); id && *id) by_id[**id] = object;
    for (Observed& one : part)
      if (const auto found = by_id.find(one.row.id); found != by_id.end()) one.answer = *found->second;
  }
  co_return all;
}

// Also of a sandbox that is over: then more than ever one wants to know why.
Task<Result<JsonObject>> SandboxService::logs(std::string team, JsonObject request) {
  SPACE_CO_TRY(const std::string id, require_text(request, "id"));
  if (!find_live(team, id)) {
    const auto row = co_await repository_.find_sandbox(id);
    if (!row) co_return std::unexpected(row.error());
    if (!*row || (*row)->team != team) co_return fail(Code::not_found, "Sandbox {} was not found", id);
  }
  SPACE_CO_TRY(const auto wait_ms, int_member(request, "wait_ms", 0, 60'000));
  co_return co_await ask_node("sandbox/logs", std::move(request),
                              Deadline::after(answer_patience + Millis(wait_ms.value_or(0))));
}

void SandboxService::note_call(const std::string& id) {
  const auto node = nodes_.current();
  if (!node) return;
  const auto tell = [](NodeSessionPtr session, std::string sandbox) -> Task<void> {
    (void)co_await session->call("sandbox/activity", {{"id", std::move(sandbox)}, {"call", true}},
                                 Deadline::after(answer_patience));
  };
  spawn(executor_, "note a call", tell(node, id));
}

}  // namespace space::control

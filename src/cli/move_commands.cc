// space pause, resume, stop, start, pool.
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/sandbox_lookup.h"
#include "cli/waiting.h"

namespace space::cli {

namespace {

struct Verb {
  std::string_view doing;  // "pausing"
  std::string_view done;   // "paused"
  std::string_view before_id, after_id;
};

constexpr Verb verb_of(MoveOptions::Kind kind) {
  using enum MoveOptions::Kind;
  switch (kind) {
    case pause:
      return {"pausing", "paused", "/sandboxes/", "/pause"};
    case resume:
      return {"resuming", "resumed", "/v2/sandboxes/", "/connect"};
    case stop:
      return {"stopping", "stopped", "/v1/sandboxes/", "/stop"};
    case start:
      return {"starting", "started", "/v1/sandboxes/", "/start"};
  }
  __builtin_unreachable();
}

JsonObject request_of(const MoveOptions& options) {
  using enum MoveOptions::Kind;
  JsonObject request;
  if (options.kind != resume && options.kind != start) return request;
  request["timeout"] = life_json(options.life);
  if (options.boot) request["memory"] = false;
  return request;
}

struct Moved {
  std::string id;
  bool changed = true;
};

Task<Result<Moved>> move(const ApiClient& api, const MoveOptions& options, std::string wanted) {
  const Verb verb = verb_of(options.kind);
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(api, std::move(wanted)));
  auto answer = co_await with_word(
      api.call("POST", fmt::format("{}{}{}", verb.before_id, id, verb.after_id), request_of(options)),
      fmt::format("{} {}", verb.doing, id));
  if (!answer) co_return std::unexpected(co_await explain_missing(api, id, std::move(answer).error()));
  co_return Moved{id, answer->status != 200};
}

void print_pools(const Json& body) {
  std::vector<Row> rows;
  for (const JsonObject& one : objects_in(body, "pools")) {
    const auto number = [&](std::string_view key) { return std::to_string(number_at(one, key)); };
    const auto ready = bool_member(one, "checkpoint");
    rows.push_back({text_at(one, "template"), number("cpuCount"), number("memoryMB"), number("target"),
                    number("parked"), number("filling"), number("hits"), number("misses"),
                    ready && ready->value_or(false) ? "yes" : "no"});
  }
  print_table({"TEMPLATE", "CPU", "MIB", "TARGET", "READY", "FILLING", "HITS", "MISSES", "CHECKPOINT"}, rows);
}

}  // namespace

int command_move(const CommonOptions& common, const MoveOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const Verb verb = verb_of(options.kind);
  int worst = 0;
  JsonArray all;
  for (const std::string& sandbox : options.sandboxes) {
    const auto moved = run_loop(move(*api, options, sandbox));
    if (!moved) {
      worst = report(moved.error());
      all.push_back(JsonObject{{"sandboxID", sandbox}, {"error", moved.error().message}});
      continue;
    }
    all.push_back(JsonObject{{"sandboxID", moved->id}, {"changed", moved->changed}});
    if (common.json) continue;
    print_line(moved->changed ? fmt::format("{} {}", verb.done, moved->id) : moved->id + " runs already");
  }
  if (common.json) print_json(all);
  return worst;
}

int command_pool_list(const CommonOptions& common) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto answer = run_loop(api->call("GET", "/v1/pools", std::nullopt));
  if (!answer) return report(answer.error());
  if (common.json)
    print_json(answer->body);
  else
    print_pools(answer->body);
  return 0;
}

int command_pool_set(const CommonOptions& common, const PoolOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const Json target = options.target ? Json(*options.target) : Json(nullptr);
  const auto answer = run_loop(api->call("PUT", "/v1/pools/" + http::percent_encode(options.template_name),
                                         JsonObject{{"target", target}}));
  if (!answer) return report(answer.error());
  if (common.json)
    print_json(JsonObject{{"template", options.template_name}, {"target", target}});
  else
    print_line(options.target ? fmt::format("{} of {} are kept ready", *options.target, options.template_name)
                              : options.template_name + " is kept ready as this node was started with");
  return 0;
}

}  // namespace space::cli

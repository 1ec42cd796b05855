// space snapshot, rollback, diff.
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/sandbox_lookup.h"
#include "cli/waiting.h"

namespace space::cli {

namespace {

constexpr Millis long_patience{600'000};  // a checkpoint of much memory, a boot under emulation

struct Call {
  std::string method;
  std::string route;  // below /v1/sandboxes/{id}
  std::optional<JsonObject> body;
  std::string word;  // "rolling back"
};

struct Called {
  std::string id;
  Json body;
};

Task<Result<Called>> call_sandbox(const ApiClient& api, std::string wanted, Call call) {
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(api, std::move(wanted)));
  auto answer = co_await with_word(api.call(std::move(call.method), "/v1/sandboxes/" + id + call.route,
                                            std::move(call.body), long_patience),
                                   call.word + " " + id);
  if (!answer)
    co_return std::unexpected(co_await explain_missing_snapshot(api, id, std::move(answer).error()));
  co_return Called{id, std::move(answer->body)};
}

Task<Result<Called>> call_for_object(const ApiClient& api, std::string wanted, Call call) {
  SPACE_CO_TRY(Called called, co_await call_sandbox(api, std::move(wanted), std::move(call)));
  if (!called.body.is_object()) co_return fail(Code::internal, "the API's answer is no object");
  co_return called;
}

std::string made_text(const JsonObject& made) {
  const std::int64_t number = number_at(made, "number");
  std::string text;
  if (text_at(made, "kind") == "disk") {
    text = fmt::format("snapshot {}: disk, {} written; it ran on", number, bytes_at(made, "writtenBytes"));
  } else {
    text = fmt::format("snapshot {}: {} written, it stood still for {:.1f} ms", number,
                       bytes_at(made, "writtenBytes"),
                       static_cast<double>(number_at(made, "stopWindowUs")) / 1000);
  }
  const auto quiesced = bool_member(made, "quiesced");
  if (quiesced && !quiesced->value_or(true))
    text += "; the guest did not answer, so it is as after a power cut";
  return text;
}

std::string marks_of(const JsonObject& snapshot) {
  std::string marks;
  const auto add = [&](bool wanted, std::string_view mark) {
    if (wanted) marks += fmt::format("{}{}", marks.empty() ? "" : ",", mark);
  };
  add(flag_at(snapshot, "pinned"), "pinned");
  add(flag_at(snapshot, "published"), "published");
  const auto users = array_member(snapshot, "usedBy");
  add(users && *users != nullptr && !(*users)->empty(), "used");
  const auto on_lineage = bool_member(snapshot, "onLineage");
  add(on_lineage && !on_lineage->value_or(true), "branch");
  const auto quiesced = bool_member(snapshot, "quiesced");
  add(quiesced && !quiesced->value_or(true), "unquiesced");
  return marks.empty() ? "-" : marks;
}

void print_snapshots(const Json& body) {
  std::vector<Row> rows;
  for (const JsonObject& one : objects_in(body, "snapshots")) {
    const auto parent = number_if(one, "parent");
    rows.push_back({std::to_string(number_at(one, "number")), text_at(one, "kind"), text_at(one, "cause"),
                    age(text_at(one, "createdAt")), parent && *parent > 0 ? std::to_string(*parent) : "-",
                    bytes_at(one, "writtenBytes"),
                    number_if(one, "exclusiveBytes") ? bytes_at(one, "exclusiveBytes") : "-", marks_of(one),
                    text_at(one, "name", "")});
  }
  print_table({"NUMBER", "KIND", "CAUSE", "AGE", "PARENT", "WRITTEN", "ALONE", "MARKS", "NAME"}, rows);
}

Call change_of(const SnapshotChange& options, std::int64_t number) {
  using enum SnapshotChange::Kind;
  Call call{.method = "PATCH",
            .route = fmt::format("/snapshots/{}", number),
            .body = std::nullopt,
            .word = "changing a snapshot of"};
  switch (options.kind) {
    case remove:
      call.method = "DELETE";
      call.word = "removing a snapshot of";
      break;
    case pin:
    case unpin:
      call.body = JsonObject{{"pinned", options.kind == pin}};
      break;
    case rename:
      call.body = JsonObject{{"name", options.name.empty() ? Json(nullptr) : Json(options.name)}};
      break;
  }
  return call;
}

std::string changed_text(const SnapshotChange& options, std::int64_t number) {
  using enum SnapshotChange::Kind;
  switch (options.kind) {
    case remove:
      return fmt::format("removed snapshot {}", number);
    case pin:
      return fmt::format("snapshot {} stays until it is unpinned or removed", number);
    case unpin:
      return fmt::format("snapshot {} is no longer pinned", number);
    case rename:
      return options.name.empty() ? fmt::format("snapshot {} has no name any more", number)
                                  : fmt::format("snapshot {} is \"{}\"", number, printable(options.name));
  }
  __builtin_unreachable();
}

std::string letter_of(std::string_view change) {
  return change == "added" ? "A" : change == "removed" ? "D" : change == "changed" ? "M" : "?";
}

}  // namespace

int command_snapshot(const CommonOptions& common, const SnapshotOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  JsonObject request{{"kind", options.disk ? "disk" : "full"}};
  if (!options.name.empty()) request["name"] = options.name;
  if (options.pinned) request["pinned"] = true;
  const auto made = run_loop(call_for_object(
      *api, options.sandbox, {"POST", "/snapshots", std::move(request), "taking a snapshot of"}));
  if (!made) return report(made.error());
  if (common.json)
    print_json(made->body);
  else
    print_line(made_text(made->body.get_object()));
  return 0;
}

int command_snapshot_list(const CommonOptions& common, const std::string& sandbox) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto listed = run_loop(call_for_object(
      *api, sandbox, {"GET", "/snapshots?measure=true", std::nullopt, "measuring the snapshots of"}));
  if (!listed) return report(listed.error());
  if (common.json)
    print_json(listed->body);
  else
    print_snapshots(listed->body);
  return 0;
}

int command_snapshot_change(const CommonOptions& common, const SnapshotChange& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  int worst = 0;
  JsonArray all;
  for (const std::int64_t number : options.numbers) {
    const auto changed = run_loop(call_sandbox(*api, options.sandbox, change_of(options, number)));
    if (!changed) {
      worst = report(changed.error());
      all.push_back(JsonObject{{"number", number}, {"error", changed.error().message}});
      continue;
    }
    all.push_back(changed->body.is_object() ? changed->body : Json(JsonObject{{"number", number}}));
    if (!common.json) print_line(changed_text(options, number));
  }
  if (common.json) print_json(all);
  return worst;
}

int command_rollback(const CommonOptions& common, const RollbackOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  if (options.undo == options.number.has_value())
    return report(
        Error{Code::invalid_argument,
              "say where to: 'space rollback ID NUMBER' ('space snapshot ls ID' has the numbers), or "
              "'space rollback ID --undo' for the state before the last rollback"});
  JsonObject request = options.undo ? JsonObject{{"undo", true}} : JsonObject{{"snapshot", *options.number}};
  const auto rolled = run_loop(
      call_for_object(*api, options.sandbox, {"POST", "/rollback", std::move(request), "rolling back"}));
  if (!rolled) return report(rolled.error());
  if (common.json) {
    print_json(rolled->body);
    return 0;
  }
  const JsonObject& answer = rolled->body.get_object();
  const auto to = number_if(answer, "snapshot");
  print_line(
      fmt::format("{} is as it was at snapshot {}", rolled->id, to ? *to : options.number.value_or(0)));
  note(fmt::format("the state before is snapshot {}: space rollback {} --undo", number_at(answer, "undo"),
                   rolled->id));
  return 0;
}

int command_diff(const CommonOptions& common, const DiffOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto diff = run_loop(
      call_for_object(*api, options.sandbox,
                      {"GET", fmt::format("/diff?from={}&to={}&limit=10000", options.from, options.to),
                       std::nullopt, "comparing disks of"}));
  if (!diff) return report(diff.error());
  if (common.json) {
    print_json(diff->body);
    return 0;
  }
  for (const JsonObject& one : objects_in(diff->body, "changes"))
    print_line(fmt::format("{} {}{}", letter_of(text_at(one, "change")), printable(text_at(one, "path")),
                           text_at(one, "type").starts_with("dir") ? "/" : ""));
  if (flag_at(diff->body.get_object(), "truncated"))
    note("there is more: these are the first that were found");
  if (flag_at(diff->body.get_object(), "approximate"))
    note("a guest did not hold still for one of the two: what was just being written may not be in it");
  return 0;
}

}  // namespace space::cli

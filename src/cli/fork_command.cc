// space fork.
#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/fields.h"
#include "cli/output.h"
#include "cli/sandbox_lookup.h"
#include "cli/waiting.h"

namespace space::cli {

namespace {

constexpr Millis fork_patience{600'000};  // a hundred children on a small machine

JsonObject request_of(const ForkOptions& options) {
  JsonObject request{{"count", options.count}};
  if (options.snapshot) request["snapshot"] = *options.snapshot;
  if (!options.life.empty()) request["timeout"] = life_json(options.life);
  return request;
}

Task<Result<JsonArray>> fork(const ApiClient& api, const ForkOptions& options) {
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(api, options.sandbox));
  auto answer = co_await with_word(
      api.call("POST", "/v1/sandboxes/" + id + "/fork", request_of(options), fork_patience), "forking " + id);
  if (!answer) co_return std::unexpected(co_await explain_missing(api, id, std::move(answer).error()));
  if (!answer->body.is_array()) co_return fail(Code::internal, "the API sent no list of forks");
  co_return std::move(answer->body.get_array());
}

// The id of the child, or why there is none.
Result<std::string> child_of(const Json& entry) {
  const JsonObject* object = entry.if_object();
  if (object == nullptr) return fail(Code::internal, "the API sent no fork");
  if (const JsonObject* sandbox = object_at(*object, "sandbox")) return require_text(*sandbox, "sandboxID");
  const JsonObject* error = object_at(*object, "error");
  return fail(Code::internal, "{}", error != nullptr ? text_at(*error, "message", "?") : "?");
}

}  // namespace

int command_fork(const CommonOptions& common, const ForkOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto forks = run_loop(fork(*api, options));
  if (!forks) return report(forks.error());
  int code = 0;
  for (std::size_t i = 0; i < forks->size(); ++i) {
    const auto child = child_of((*forks)[i]);
    if (!child) code = exit_failed;
    if (common.json) continue;
    if (child)
      print_line(printable(*child));
    else
      print_error(Error{child.error().code,
                        fmt::format("fork {} of {}: {}", i + 1, forks->size(), child.error().message)});
  }
  if (common.json) print_json(*forks);
  return code;
}

}  // namespace space::cli

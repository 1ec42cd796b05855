// space history.
#include <cstdlib>

#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/history_tree.h"
#include "cli/output.h"
#include "cli/sandbox_lookup.h"

namespace space::cli {

namespace {

struct Told {
  std::string id;
  JsonObject history;
};

Task<Result<Told>> fetch(const ApiClient& api, std::string wanted) {
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(api, std::move(wanted)));
  auto answer = co_await api.call("GET", "/v1/sandboxes/" + id + "/history", std::nullopt);
  if (!answer) co_return std::unexpected(co_await explain_missing(api, id, std::move(answer).error()));
  if (!answer->body.is_object()) co_return fail(Code::internal, "the API sent no history");
  co_return Told{id, std::move(answer->body.get_object())};
}

}  // namespace

int command_history(const CommonOptions& common, const std::string& sandbox) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto told = run_loop(fetch(*api, sandbox));
  if (!told) return report(told.error());
  if (common.json) {
    print_json(told->history);
    return 0;
  }
  const Charset charset =
      charset_of(std::getenv("LC_ALL"), std::getenv("LC_CTYPE"), std::getenv("LANG"));  // NOLINT: one thread
  for (const std::string& line : history_lines(told->id, told->history, charset)) print_line(line);
  return 0;
}

}  // namespace space::cli

// space egress: where sandboxes may connect to.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cli/api_client.h"
#include "cli/commands.h"
#include "cli/egress_text.h"
#include "cli/fields.h"
#include "cli/input_file.h"
#include "cli/output.h"
#include "cli/sandbox_lookup.h"
#include "cli/waiting.h"

namespace space::cli {

namespace {

constexpr std::size_t policy_file_bytes = 1024 * 1024;
constexpr std::int64_t wait_s = 15;
constexpr Millis follow_limit{60'000};
constexpr Millis retry_pause{1'000};

bool in_colour() {
  return ::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
}

Task<Result<JsonObject>> call_egress(const ApiClient& api, std::string wanted, std::string method,
                                     std::string route, std::optional<JsonObject> body) {
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(api, std::move(wanted)));
  auto answer = co_await with_word(
      api.call(std::move(method), fmt::format("/v1/sandboxes/{}/egress{}", id, route), std::move(body)),
      "asking for " + id);
  if (!answer) co_return std::unexpected(co_await explain_missing(api, id, std::move(answer).error()));
  if (!answer->body.is_object()) co_return fail(Code::internal, "the API's answer is no object");
  co_return std::move(answer->body.get_object());
}

int print_change(const CommonOptions& common, const Result<JsonObject>& changed) {
  if (!changed) return report(changed.error());
  if (common.json) {
    print_json(*changed);
    return 0;
  }
  const std::int64_t cut = number_at(*changed, "cut");
  print_line(fmt::format("in force: generation {}; {} live connection{} closed",
                         number_at(*changed, "generation"), cut, cut == 1 ? "" : "s"));
  return 0;
}

JsonArray texts_json(const std::vector<std::string>& texts) {
  JsonArray array;
  for (const std::string& text : texts) array.emplace_back(text);
  return array;
}

std::string force_query(bool force) {
  return force ? "?force=true" : "";
}

Result<JsonObject> wanted_policy(const EgressSetOptions& options) {
  const JsonObject by_flags = egress_policy_of(options.flags);
  if (by_flags.empty() == options.file.empty())
    return fail(
        Code::invalid_argument,
        "a mode (allow_all, restricted, deny_all) and rules, or --file: one of the two says the policy");
  if (options.file.empty()) return by_flags;
  SPACE_TRY(const std::string text, read_input(options.file, policy_file_bytes));
  SPACE_TRY(JsonObject object, parse_json_object(text, options.file));
  // What 'space egress show ID --json' prints can be given back.
  if (const JsonObject* policy = object_at(object, "policy")) return *policy;
  return object;
}

// A URL, or HOST:PORT.
Result<JsonObject> test_request(const std::string& asked) {
  if (asked.contains("://")) return JsonObject{{"url", asked}};
  const auto colon = asked.rfind(':');
  const long port = colon == std::string::npos ? 0 : std::strtol(asked.c_str() + colon + 1, nullptr, 10);
  if (port < 1 || port > 65535)
    return fail(Code::invalid_argument, "'{}' is no URL, like https://example.com/, and no HOST:PORT",
                printable(asked));
  std::string host = asked.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return JsonObject{{"host", host}, {"port", port}};
}

// Prints what is new; in one document at its end where nobody follows.
class LogPrinter {
 public:
  LogPrinter(const CommonOptions& common, const EgressLogOptions& options)
      : json_(common.json), follow_(options.follow), denied_(options.denied), colour_(in_colour()) {}

  void print(const JsonObject& page) {
    if (flag_at(page, "gap")) note("older decisions were lost");
    for (const JsonObject& entry : objects_in(page, "entries")) {
      if (denied_ && flag_at(entry, "allowed")) continue;
      if (!json_)
        print_line(egress_log_line(entry, colour_));
      else if (follow_)
        print_json(entry);
      else
        all_.push_back(entry);
    }
    std::fflush(stdout);
  }
  void end() {
    if (json_ && !follow_) print_json(JsonObject{{"entries", std::move(all_)}});
  }

 private:
  bool json_, follow_, denied_, colour_;
  JsonArray all_;
};

Task<Result<JsonObject>> log_page(const ApiClient& api, std::string id, std::int64_t after, bool wait) {
  std::string path = fmt::format("/v1/sandboxes/{}/egress/log?limit=1000&after={}", id, after);
  if (wait) path += fmt::format("&wait={}", wait_s);
  SPACE_CO_TRY(Answer answer, co_await api.call("GET", std::move(path), std::nullopt, follow_limit));
  if (auto* body = answer.body.if_object()) co_return std::move(*body);
  co_return fail(Code::internal, "the API sent no log");
}

Task<Result<int>> show_log(const ApiClient& api, CommonOptions common, EgressLogOptions options) {
  SPACE_CO_TRY(const std::string id, co_await resolve_sandbox(api, options.sandbox));
  LogPrinter printer(common, options);
  std::int64_t after = 0;
  bool seen = false, lost = false;
  while (true) {
    const auto page = co_await log_page(api, id, after, options.follow && seen);
    if (!page && options.follow && seen) {
      if (page.error().code == Code::not_found) break;  // it was deleted
      if (page.error().code != Code::unavailable) co_return std::unexpected(page.error());
      if (!std::exchange(lost, true)) note(page.error().message + "; waiting");
      co_await sleep_for(retry_pause);
      continue;
    }
    if (!page) co_return std::unexpected(co_await explain_missing(api, id, page.error()));
    seen = true;
    lost = false;
    printer.print(*page);
    after = number_at(*page, "next");
    if (objects_in(*page, "entries").empty() && !options.follow) break;
  }
  printer.end();
  co_return 0;
}

}  // namespace

int command_egress_show(const CommonOptions& common, const std::string& sandbox) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto shown = run_loop(call_egress(*api, sandbox, "GET", "", std::nullopt));
  if (!shown) return report(shown.error());
  if (common.json) {
    print_json(*shown);
    return 0;
  }
  for (const std::string& line : egress_lines(*shown)) print_line(line);
  return 0;
}

int command_egress_edit(const CommonOptions& common, const EgressEditOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  JsonObject body{{options.list, texts_json(options.rules)}};
  return print_change(common, run_loop(call_egress(*api, options.sandbox, "POST",
                                                   "/rules" + force_query(options.force), std::move(body))));
}

int command_egress_set(const CommonOptions& common, const EgressSetOptions& options) {
  auto policy = wanted_policy(options);
  if (!policy) return report(policy.error());
  const auto api = make_client(common);
  if (!api) return report(api.error());
  return print_change(common, run_loop(call_egress(*api, options.sandbox, "PUT", force_query(options.force),
                                                   *std::move(policy))));
}

int command_egress_test(const CommonOptions& common, const EgressTestOptions& options) {
  auto asked = test_request(options.url);
  if (!asked) return report(asked.error());
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto verdict = run_loop(call_egress(*api, options.sandbox, "POST", "/test", *std::move(asked)));
  if (!verdict) return report(verdict.error());
  if (common.json) {
    print_json(*verdict);
  } else {
    for (const std::string& line : egress_test_lines(options.url, *verdict, in_colour())) print_line(line);
  }
  return flag_at(*verdict, "allowed") ? 0 : exit_failed;
}

int command_egress_log(const CommonOptions& common, const EgressLogOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto shown = run_loop(show_log(*api, common, options));
  return shown ? *shown : report(shown.error());
}

}  // namespace space::cli

#include "cli/logs_command.h"

#include <charconv>
#include <cstdio>

#include "cli/output.h"
#include "cli/sandbox_lookup.h"

namespace space::cli {

namespace {

constexpr std::int64_t wait_ms = 15'000;
constexpr Millis follow_limit{60'000};

std::string text_of(const JsonObject& object, std::string_view key) {
  const auto text = text_member(object, key);
  return text ? text->value_or("") : "";
}

bool is_console(const JsonObject& entry) {
  const auto fields = object_member(entry, "fields");
  return fields && *fields && text_of(**fields, "source") == "console";
}

// One page; `after` is the timestamp of the last line of the page before.
Task<Result<JsonArray>> page_of(const ApiClient& api, std::string sandbox, std::string choice,
                                std::string after, bool wait) {
  std::string path = fmt::format("/v2/sandboxes/{}/logs?limit=1000{}", http::percent_encode(sandbox), choice);
  if (!after.empty()) path += "&after=" + http::percent_encode(after);
  if (wait) path += fmt::format("&wait_ms={}", wait_ms);
  SPACE_CO_TRY(Answer answer, co_await api.call("GET", std::move(path), std::nullopt, follow_limit));
  if (auto* body = answer.body.if_object())
    if (const auto logs = array_member(*body, "logs"); logs && *logs) co_return **logs;
  co_return fail(Code::internal, "the API sent no log");
}

// Prints what is new. True: the sandbox is gone, nothing more will come.
bool print_page(const JsonArray& page, bool json) {
  bool gone = false;
  for (const Json& value : page) {
    const auto* entry = value.if_object();
    if (entry == nullptr) continue;
    json ? print_json(*entry) : print_line(log_line(*entry));
    gone = gone || (!is_console(*entry) && text_of(*entry, "message") == "sandbox deleted");
  }
  std::fflush(stdout);
  return gone;
}

Task<Result<int>> show(const ApiClient& api, const CommonOptions& common, const LogsOptions& options) {
  SPACE_CO_TRY(const std::string sandbox, co_await resolve_sandbox(api, options.sandbox));
  std::string choice;
  if (!options.level.empty()) choice += "&level=" + options.level;
  if (!options.since.empty()) {
    SPACE_CO_TRY(const std::int64_t from, since_ms(options.since, system_clock().wall()));
    choice += fmt::format("&cursor={}", from);
  }
  JsonArray all;  // of one document
  std::string after;
  while (true) {
    SPACE_CO_TRY(JsonArray page, co_await page_of(api, sandbox, choice, after, options.follow));
    if (!page.empty() && page.back().is_object()) after = text_of(page.back().get_object(), "timestamp");
    if (common.json && !options.follow) {
      all.insert(all.end(), page.begin(), page.end());
    } else if (print_page(page, common.json)) {
      break;
    }
    if (page.empty() && !options.follow) break;
  }
  if (common.json && !options.follow) print_json(JsonObject{{"logs", std::move(all)}});
  co_return 0;
}

}  // namespace

int command_logs(const CommonOptions& common, const LogsOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto shown = run_loop(show(*api, common, options));
  return shown ? *shown : report(shown.error());
}

std::string log_line(const JsonObject& entry) {
  std::string time = text_of(entry, "timestamp");
  if (constexpr std::size_t with_ms = 23; time.size() > with_ms) time = time.substr(0, with_ms) + "Z";
  const std::string message = printable(text_of(entry, "message"));
  if (is_console(entry)) return fmt::format("{}  {:<5}  | {}", printable(time), "", message);
  std::string line =
      fmt::format("{}  {:<5}  {}", printable(time), printable(text_of(entry, "level")), message);
  if (const auto fields = object_member(entry, "fields"); fields && *fields)
    for (const auto& [name, value] : **fields)
      line +=
          fmt::format("  {}={}", printable(name),
                      value.is_string() ? printable(std::string_view(value.get_string())) : to_text(value));
  return line;
}

Result<std::int64_t> since_ms(std::string_view since, Wall now) {
  if (const auto time = parse_rfc3339(since)) return time->time_since_epoch().count();
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(since.data(), since.data() + since.size(), count);
  const std::string_view unit(end, since.data() + since.size());
  const std::int64_t seconds = unit == "s"   ? 1
                               : unit == "m" ? 60
                               : unit == "h" ? 3600
                               : unit == "d" ? 86'400
                                             : 0;
  constexpr std::int64_t count_max = 1'000'000;
  if (error != std::errc() || seconds == 0 || count < 0 || count > count_max)
    return fail(Code::invalid_argument, "--since wants 90s, 10m, 2h, 3d or a time like 2026-01-31T12:00:00Z");
  return std::max<std::int64_t>(0, now.time_since_epoch().count() - count * seconds * 1000);
}

}  // namespace space::cli

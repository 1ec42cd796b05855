#include "cli/top_command.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdio>

#include "cli/api_client.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace space::cli {

namespace {

constexpr Millis refresh{2'000};
constexpr char ctrl_c = 0x03;
const Row header = {"SANDBOX", "TEMPLATE", "CPU%", "MEMORY", "DISK", "TASKS", "STREAMS", "IN USE BY", "AGE"};

// A second screen while it lives, so that the first is as it was afterwards.
class Screen {
 public:
  Screen() { put("\x1b[?1049h\x1b[?25l"); }
  ~Screen() { put("\x1b[?25h\x1b[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // As much of `lines` as fits.
  static void draw(const std::vector<std::string>& lines) {
    const auto [columns, rows] = terminal_size();
    std::string text = "\x1b[H";
    for (std::size_t i = 0; i < std::min(lines.size(), static_cast<std::size_t>(rows - 1)); ++i)
      text += lines[i].substr(0, static_cast<std::size_t>(columns)) + "\x1b[K\r\n";
    put(text + "\x1b[J");
  }

 private:
  static void put(std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
};

// Told by a key or a signal to end.
struct Quit {
  explicit Quit(const Executor& executor) : event(executor) {}
  void now() {
    wanted = true;
    event.notify_all();
  }
  bool wanted = false;
  Event event;
};

Task<void> watch_keys(std::shared_ptr<Quit> quit, StreamPtr keys) {
  std::byte typed[64];
  while (true) {
    const auto n = co_await keys->read(typed);
    if (!n || *n == 0) co_return quit->now();
    for (const std::byte key : std::span(typed).first(*n))
      if (key == std::byte{'q'} || key == std::byte{ctrl_c}) co_return quit->now();
  }
}

Task<void> watch_signals(std::shared_ptr<Quit> quit) {
  boost::asio::signal_set signals(co_await boost::asio::this_coro::executor, SIGINT, SIGTERM, SIGHUP);
  co_await signals.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  quit->now();
}

Task<Result<JsonArray>> fetch(const ApiClient& api) {
  SPACE_CO_TRY(Answer answer, co_await api.call("GET", "/v1/stats", std::nullopt));
  if (auto* body = answer.body.if_object())
    if (const auto all = array_member(*body, "sandboxes"); all && *all) co_return **all;
  co_return fail(Code::internal, "the API sent no figures");
}

Task<Result<int>> refresh_until_quit(const ApiClient& api, std::string sort) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  const auto quit = std::make_shared<Quit>(executor);
  const RawTerminal raw;
  const Screen screen;
  spawn(executor, "keys", watch_keys(quit, make_stream(executor, open_stdin())));
  spawn(executor, "signals", watch_signals(quit));
  while (!quit->wanted) {
    SPACE_CO_TRY(const JsonArray sandboxes, co_await fetch(api));
    std::vector<std::string> lines = table_lines(header, top_rows(sandboxes, sort));
    lines.insert(lines.begin(), fmt::format("{} running, by {}; q ends", sandboxes.size(), sort));
    Screen::draw(lines);
    if (!quit->wanted) co_await quit->event.wait(Deadline::after(refresh));
  }
  co_return 0;
}

Task<Result<int>> show_once(const ApiClient& api, std::string sort, bool json) {
  SPACE_CO_TRY(JsonArray sandboxes, co_await fetch(api));
  if (json) {
    print_json(JsonObject{{"sandboxes", std::move(sandboxes)}});
  } else {
    print_table(header, top_rows(sandboxes, sort));
  }
  co_return 0;
}

// Members of hostile or missing objects.
const JsonObject& object_at(const JsonObject& object, std::string_view key) {
  static const JsonObject none;
  const auto found = object_member(object, key);
  return found && *found ? **found : none;
}

double number_at(const JsonObject& object, std::string_view key, double missing) {
  const Json* value = object.if_contains(key);
  return value != nullptr && value->is_number() ? value->to_number<double>() : missing;
}

std::string text_at(const JsonObject& object, std::string_view key) {
  const auto text = text_member(object, key);
  return text ? text->value_or("?") : "?";
}

std::string of_total(const JsonObject& stats, std::string_view used, std::string_view total) {
  const double part = number_at(stats, used, -1);
  const double whole = number_at(stats, total, -1);
  if (part < 0 || whole < 0) return "-";
  return byte_text(static_cast<std::uint64_t>(part)) + " / " + byte_text(static_cast<std::uint64_t>(whole));
}

std::string use_of(const JsonObject& activity) {
  std::string reasons;
  if (const auto given = array_member(activity, "reasons"); given && *given)
    for (const Json& reason : **given)
      if (const auto* text = reason.if_string()) reasons += (reasons.empty() ? "" : ",") + std::string(*text);
  if (!reasons.empty()) return reasons;
  const auto idle_s = static_cast<std::int64_t>(number_at(activity, "idleSeconds", -1));
  return idle_s < 0 ? "?" : "idle " + duration_text(idle_s);
}

Row row_of(const JsonObject& sandbox) {
  const JsonObject& stats = object_at(sandbox, "stats");
  const JsonObject& activity = object_at(sandbox, "activity");
  const double cpu = number_at(stats, "cpuUsedPct", -1);
  const double tasks = number_at(stats, "tasks", -1);
  return {text_at(sandbox, "sandboxID"),
          text_at(sandbox, "alias"),
          cpu < 0 ? "-" : fmt::format("{:.1f}", cpu),
          of_total(stats, "memUsed", "memTotal"),
          of_total(stats, "diskUsed", "diskTotal"),
          tasks < 0 ? "-" : fmt::format("{:.0f}", tasks),
          fmt::format("{:.0f}", number_at(activity, "streams", 0)),
          use_of(activity),
          age(text_at(sandbox, "startedAt"))};
}

}  // namespace

std::vector<Row> top_rows(const JsonArray& sandboxes, std::string_view sort) {
  const std::string_view key = sort == "mem" ? "memUsed" : "cpuUsedPct";
  std::vector<const JsonObject*> ordered;
  for (const Json& value : sandboxes)
    if (const auto* object = value.if_object()) ordered.push_back(object);
  std::ranges::sort(ordered, [key](const JsonObject* a, const JsonObject* b) {
    const double of_a = number_at(object_at(*a, "stats"), key, -1);
    const double of_b = number_at(object_at(*b, "stats"), key, -1);
    return of_a != of_b ? of_a > of_b : text_at(*a, "sandboxID") < text_at(*b, "sandboxID");
  });
  std::vector<Row> rows;
  for (const JsonObject* sandbox : ordered) rows.push_back(row_of(*sandbox));
  return rows;
}

int command_top(const CommonOptions& common, const TopOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const bool live = !options.once && !common.json && ::isatty(STDOUT_FILENO) == 1 && stdin_is_terminal();
  const auto code =
      run_loop(live ? refresh_until_quit(*api, options.sort) : show_once(*api, options.sort, common.json));
  return code ? *code : report(code.error());
}

}  // namespace space::cli

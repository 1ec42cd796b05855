#include <cstdio>

#include "cli/commands.h"
#include "cli/connect_stream.h"
#include "cli/output.h"
#include "cli/session.h"

namespace space::cli {

namespace {

// The daemon sends a keep-alive more often than this.
constexpr Millis silence_max{90'000};

std::string event_name(std::string type) {
  constexpr std::string_view prefix = "EVENT_TYPE_";
  if (type.starts_with(prefix)) type.erase(0, prefix.size());
  for (char& c : type)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return type;
}

void print_event(const JsonObject& event, bool json) {
  const auto type = text_member(event, "type");
  const auto name = text_member(event, "name");
  if (!type || !*type || !name || !*name) return;
  const std::string what = event_name(**type);
  if (json) {
    print_json(JsonObject{{"event", what}, {"name", **name}});
  } else {
    print_line(fmt::format("{:<7} {}", printable(what), printable(**name)));
  }
  std::fflush(stdout);
}

Task<Result<int>> watch(const ApiClient& api, const CommonOptions& common, const WatchOptions& options) {
  SPACE_CO_TRY(const Target target, co_await api.connect_sandbox(options.sandbox));
  http::Fields fields = session_fields();
  if (!options.user.empty()) fields.add("Authorization", basic_authorization(options.user));
  JsonObject request{{"path", options.path}, {"recursive", options.recursive}};
  SPACE_CO_TRY(const auto stream, co_await ConnectStream::open(api, target, "/filesystem.Filesystem/WatchDir",
                                                               std::move(request), std::move(fields)));
  while (true) {
    SPACE_CO_TRY(const auto payload, co_await stream->next(silence_max));
    if (!payload) co_return 0;
    SPACE_CO_TRY(const JsonObject message, parse_json_object(*payload, "event"));
    if (message.contains("start") && !common.json) note("watching " + printable(options.path));
    SPACE_CO_TRY(const JsonObject* event, object_member(message, "filesystem"));
    if (event != nullptr) print_event(*event, common.json);
  }
}

}  // namespace

int command_watch(const CommonOptions& common, const WatchOptions& options) {
  const auto api = make_client(common);
  if (!api) return report(api.error());
  const auto ended = run_loop(watch(*api, common, options));
  return ended ? *ended : report(ended.error());
}

}  // namespace space::cli

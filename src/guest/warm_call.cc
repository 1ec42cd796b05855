#include "guest/warm_call.h"

#include <unistd.h>

#include <array>

#include "base/log.h"
#include "net/connect.h"

namespace space::guest {

namespace {

constexpr std::size_t answer_bytes_max = 64 * 1024;

struct WarmCommand {
  std::string_view name;
  std::string_view program;
  std::array<std::string_view, 3> arguments;  // empty ones are none
};
constexpr WarmCommand shell{"shell", "/bin/bash", {"-l", "-c", "true"}};
constexpr std::array<WarmCommand, 2> interpreters{
    {{"python3", "python3", {"-c", "pass", ""}}, {"node", "node", {"-e", "0", ""}}}};

bool is_there(const GuestState& state, std::string_view program) {
  for (const std::string& path : executable_candidates(program, state.path))
    if (::access(path.c_str(), X_OK) == 0) return true;
  return false;
}

std::string start_request(const GuestState& state, const WarmCommand& command) {
  JsonArray arguments;
  for (const std::string_view argument : command.arguments)
    if (!argument.empty()) arguments.emplace_back(argument);
  const Bytes body = connect::envelope(
      0, to_text(JsonObject{{"process", JsonObject{{"cmd", command.program}, {"args", std::move(arguments)}}},
                            {"stdin", false}}));
  const std::string user = to_base64(as_bytes(state.default_user + ":"));
  const std::string& token = state.access_token.reveal();
  return fmt::format(
      "POST /process.Process/Start HTTP/1.1\r\nHost: localhost:49983\r\nContent-Type: "
      "application/connect+json\r\n"
      "Connect-Protocol-Version: 1\r\nConnect-Timeout-Ms: {}\r\nAuthorization: Basic {}\r\n{}Connection: "
      "close\r\n"
      "Content-Length: {}\r\n\r\n{}",
      warm_time.count(), user, token.empty() ? "" : fmt::format("X-Access-Token: {}\r\n", token), body.size(),
      as_text(body));
}

// The whole answer, cut.
Task<Result<std::string>> ask(StreamPtr stream, std::string request) {
  SPACE_CO_CHECK(co_await stream->write(as_bytes(request)));
  std::string answer;
  std::array<std::byte, 4096> buffer;
  for (;;) {
    SPACE_CO_TRY(const std::size_t count, co_await stream->read(buffer));
    if (count == 0 || answer.size() > answer_bytes_max) co_return answer;
    answer += as_text(std::span(buffer).first(count));
  }
}

Task<bool> run_command(GuestState& state, const ControlSurroundings& around, WarmCommand command,
                       Deadline deadline) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  auto [ours, theirs] = make_stream_pair(executor);
  spawn(executor, "warm up", around.serve_clients(std::move(theirs)));
  const auto answer =
      co_await with_deadline(ask(std::move(ours), start_request(state, command)), deadline, "warming up");
  const bool well = answer && answer->contains("exit status 0");
  if (!well)
    log::warn("a command to warm up with failed",
              {{"command", command.name}, {"answer", answer ? *answer : answer.error().message}});
  co_return well;
}

}  // namespace

Task<JsonObject> run_warm(GuestState& state, const ControlSurroundings& around, bool everything) {
  const Deadline deadline = Deadline::after(warm_time);
  JsonArray ran;
  if (co_await run_command(state, around, shell, deadline)) ran.emplace_back(shell.name);
  if (everything) {
    for (const WarmCommand& command : interpreters)
      if (is_there(state, command.program) && co_await run_command(state, around, command, deadline))
        ran.emplace_back(command.name);
  }
  co_return JsonObject{{"ran", std::move(ran)}};
}

}  // namespace space::guest

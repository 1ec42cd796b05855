#include "cli/session.h"

#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>

#include "cli/output.h"

namespace space::cli {

namespace {

namespace asio = boost::asio;

// The daemon says at least this often that the stream lives; three silences are a lost connection.
constexpr int keepalive_seconds = 20;
constexpr Millis silence_max{3 * keepalive_seconds * 1000};
constexpr Millis unbounded_silence{std::chrono::hours(24 * 365)};  // a program may wait for a year
constexpr Millis first_pause{200};
constexpr Millis longest_pause{5000};
constexpr Millis attach_patience{15 * 60'000};

bool may_come_back(const Error& error) {
  return error.code == Code::unavailable || error.code == Code::deadline || error.code == Code::conflict ||
         error.code == Code::exhausted || error.code == Code::internal;
}

}  // namespace

http::Fields session_fields() {
  http::Fields fields;
  fields.add("Keepalive-Ping-Interval", std::to_string(keepalive_seconds));
  return fields;
}

std::string basic_authorization(const std::string& user) {
  return "Basic " + to_base64(as_bytes(user + ":"));
}

Session::Session(const Executor& executor, const ApiClient& api, Target target, Selector selector,
                 SessionOptions options)
    : executor_(executor),
      api_(api),
      target_(std::make_shared<const Target>(std::move(target))),
      selector_(std::move(selector)),
      options_(options),
      resized_(executor),
      woken_(executor) {}

Task<Result<std::unique_ptr<ConnectStream>>> Session::attach() {
  co_return co_await ConnectStream::open(api_, *target_, "/process.Process/Connect",
                                         JsonObject{{"process", to_json(selector_)}}, session_fields());
}

Task<Result<int>> Session::run(std::unique_ptr<ConnectStream> stream) {
  const auto self = shared_from_this();
  std::optional<RawTerminal> raw;
  if (options_.terminal) raw.emplace();
  stream_ = std::move(stream);
  auto code = co_await follow();
  while (!code && !detached_ && options_.reattach && pump_ && may_come_back(code.error())) {
    if (auto back = co_await attach_again(code.error()); !back) {
      code = std::unexpected(back.error());
      break;
    }
    code = co_await follow();
  }
  if (pump_) pump_->stop();
  resized_.cancel();
  raw.reset();
  if (detached_) {
    say_detached();
    co_return 0;
  }
  co_return code;
}

// To the program's end.
Task<Result<int>> Session::follow() {
  std::optional<int> code;
  while (!detached_) {
    const Millis silence = options_.reattach ? silence_max : unbounded_silence;
    SPACE_CO_TRY(const auto payload, co_await stream_->next(silence));
    if (!payload && code) co_return *code;
    if (!payload) co_return fail(Code::internal, "the stream ended before the program did");
    SPACE_CO_TRY(const ProcessEvent event, parse_process_event(*payload));
    if (event.pid) started(*event.pid);
    SPACE_CO_CHECK(print(event));
    if (event.exit_code) code = event.exit_code;
  }
  co_return 0;
}

Result<void> Session::print(const ProcessEvent& event) {
  if (!event.out.empty()) SPACE_CHECK(write_all(STDOUT_FILENO, event.out));
  if (!event.err.empty()) SPACE_CHECK(write_all(STDERR_FILENO, event.err));
  return {};
}

void Session::started(std::uint32_t pid) {
  if (pump_ || !options_.forward_stdin) return;
  // A tag of ours is never reused; a pid is all there is without one.
  if (selector_.tag.empty()) selector_.pid = pid;
  std::function<void()> on_detach;
  if (options_.terminal && stdin_is_terminal()) on_detach = [this] { detach(); };
  pump_ = std::make_shared<InputPump>(executor_, api_, target_, selector_, options_.terminal, on_detach);
  pump_->start();
  if (!options_.terminal) return;
  boost::system::error_code ignored;
  resized_.add(SIGWINCH, ignored);
  spawn(executor_, "terminal size", follow_size());
}

void Session::detach() {
  detached_ = true;
  if (stream_) stream_->abort();
  woken_.notify_all();
}

void Session::say_detached() const {
  note(fmt::format("\nleft running; back with: space attach {} {}", target_->sandbox_id,
                   to_string(selector_)));
}

Task<Result<void>> Session::attach_again(Error why) {
  pump_->set_connected(false);
  note_on_terminal("connection lost, trying again (Ctrl-P Ctrl-Q gives up; the program goes on)");
  const Deadline end = Deadline::after(attach_patience);
  for (Millis pause = first_pause; !end.passed(); pause = std::min(pause * 2, longest_pause)) {
    co_await woken_.wait(Deadline::after(pause));
    if (detached_) co_return Result<void>();
    const auto attached = co_await try_attach();
    if (attached) {
      note_on_terminal("connected again; output of the time between is lost");
      co_await send_size(true);
      pump_->set_connected(true);
      co_return Result<void>();
    }
    if (!may_come_back(attached.error())) co_return std::unexpected(attached.error());
  }
  co_return std::unexpected(std::move(why));
}

Task<Result<void>> Session::try_attach() {
  // Whoever paused it does not want it back because a terminal is open.
  SPACE_CO_TRY(const Answer seen,
               co_await api_.call("GET", "/sandboxes/" + target_->sandbox_id, std::nullopt));
  if (shows_paused(seen))
    co_return fail(Code::not_found,
                   "the sandbox was paused; 'space attach {} {}' brings it and the program back",
                   target_->sandbox_id, to_string(selector_));
  SPACE_CO_TRY(auto stream, co_await attach());
  const auto first = co_await stream->next(silence_max);
  if (!first && first.error().code == Code::not_found)
    co_return fail(Code::not_found, "the program ended while the connection was lost; its exit code is gone");
  SPACE_CO_TRY(const auto payload, first);
  if (!payload) co_return fail(Code::internal, "the stream ended before the program did");
  SPACE_CO_CHECK(parse_process_event(*payload));
  stream_ = std::move(stream);
  co_return Result<void>();
}

Task<void> Session::follow_size() {
  const auto self = shared_from_this();
  while (true) {
    const auto [error, signal] = co_await resized_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    co_await send_size(false);
  }
}

// A program draws its screen anew when the size changes: for that it is told a wrong one first.
Task<void> Session::send_size(bool redraw) {
  TerminalSize size = terminal_size();
  if (redraw) {
    ++size.rows;
    co_await api_.daemon_call(*target_, "/process.Process/Update",
                              JsonObject{{"process", to_json(selector_)}, {"pty", to_json(size)}});
  }
  co_await api_.daemon_call(*target_, "/process.Process/Update",
                            JsonObject{{"process", to_json(selector_)}, {"pty", to_json(terminal_size())}});
}

}  // namespace space::cli

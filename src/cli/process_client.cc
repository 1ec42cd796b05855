#include "cli/process_client.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>

#include "base/fd.h"
#include "net/connect.h"

namespace space::cli {

namespace {

namespace asio = boost::asio;

constexpr auto use_tuple = asio::as_tuple(asio::use_awaitable);

// The terminal in raw mode, given back whatever happens.
class RawTerminal {
 public:
  RawTerminal() {
    if (::tcgetattr(STDIN_FILENO, &saved_) != 0) return;
    termios raw = saved_;
    ::cfmakeraw(&raw);
    active_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  ~RawTerminal() {
    if (active_) ::tcsetattr(STDIN_FILENO, TCSANOW, &saved_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios saved_{};
  bool active_ = false;
};

JsonObject terminal_size() {
  winsize size{};
  if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  JsonObject object;
  object["cols"] = size.ws_col;
  object["rows"] = size.ws_row;
  return JsonObject{{"size", std::move(object)}};
}

JsonObject start_request(const ProgramSpec& program) {
  JsonObject process;
  process["cmd"] = program.argv.front();
  process["args"] = JsonArray(program.argv.begin() + 1, program.argv.end());
  JsonObject env;
  for (const auto& [name, value] : program.env) env[name] = value;
  process["envs"] = std::move(env);
  if (!program.cwd.empty()) process["cwd"] = program.cwd;
  JsonObject request;
  request["process"] = std::move(process);
  request["stdin"] = program.forward_stdin;
  if (program.terminal) request["pty"] = terminal_size();
  return request;
}

http::RequestHead start_head(const ProgramSpec& program) {
  http::RequestHead head;
  head.method = "POST";
  head.target = "/process.Process/Start";
  head.fields.add("Content-Type", "application/connect+json");
  head.fields.add("Connect-Protocol-Version", "1");
  if (program.timeout.count() > 0)
    head.fields.add("Connect-Timeout-Ms", std::to_string(program.timeout.count()));
  if (!program.user.empty())
    head.fields.add("Authorization", "Basic " + to_base64(as_bytes(program.user + ":")));
  return head;
}

// What feeds the running program from this terminal. Lives as long as the program runs.
class Feeder : public std::enable_shared_from_this<Feeder> {
 public:
  Feeder(const Executor& executor, const ApiClient& api, const Target& target, std::uint32_t pid,
         bool terminal)
      : api_(api), target_(target), terminal_(terminal), input_(executor), resized_(executor, SIGWINCH) {
    selector_["pid"] = pid;
  }

  void start(const Executor& executor) {
    const int copy = ::dup(STDIN_FILENO);
    boost::system::error_code error;
    input_.assign(copy, error);
    if (error) {
      // A regular file or /dev/null cannot be polled: it is read at once instead.
      spawn(executor, "stdin", feed_file(Fd(copy)));
    } else {
      spawn(executor, "stdin", feed());
    }
    if (terminal_) spawn(executor, "resize", follow_size());
  }

  void stop() {
    boost::system::error_code ignored;
    input_.cancel(ignored);
    resized_.cancel(ignored);
    stopped_ = true;
  }

 private:
  Task<void> feed() {
    const auto self = shared_from_this();
    std::array<char, 16384> buffer;
    while (!stopped_) {
      const auto [error, n] = co_await input_.async_read_some(asio::buffer(buffer), use_tuple);
      if (stopped_) co_return;
      if (error || n == 0) break;
      if (!(co_await send(std::string_view(buffer.data(), n)))) co_return;
    }
    if (!terminal_) co_await close_input();
  }

  Task<void> feed_file(Fd fd) {
    const auto self = shared_from_this();
    std::array<char, 65536> buffer;
    while (!stopped_) {
      const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
      if (n <= 0) break;
      if (!(co_await send(std::string_view(buffer.data(), static_cast<std::size_t>(n))))) co_return;
    }
    co_await close_input();
  }

  Task<bool> send(std::string_view bytes) {
    JsonObject request;
    request["process"] = selector_;
    request["input"] = JsonObject{{terminal_ ? "pty" : "stdin", to_base64(as_bytes(bytes))}};
    co_return (co_await api_.daemon_call(target_, "/process.Process/SendInput", std::move(request)))
        .has_value();
  }

  Task<void> close_input() {
    JsonObject request;
    request["process"] = selector_;
    co_await api_.daemon_call(target_, "/process.Process/CloseStdin", std::move(request));
  }

  Task<void> follow_size() {
    const auto self = shared_from_this();
    while (!stopped_) {
      const auto [error, signal] = co_await resized_.async_wait(use_tuple);
      if (error || stopped_) co_return;
      JsonObject request;
      request["process"] = selector_;
      request["pty"] = terminal_size();
      co_await api_.daemon_call(target_, "/process.Process/Update", std::move(request));
    }
  }

  const ApiClient& api_;
  const Target& target_;
  bool terminal_;
  bool stopped_ = false;
  JsonObject selector_;
  asio::posix::stream_descriptor input_;
  asio::signal_set resized_;
};

Result<void> print_data(const JsonObject& data) {
  for (const auto& [key, fd] : {std::pair("stdout", STDOUT_FILENO), std::pair("pty", STDOUT_FILENO),
                                std::pair("stderr", STDERR_FILENO)}) {
    SPACE_TRY(const auto text, text_member(data, key));
    if (!text) continue;
    const auto bytes = from_base64(*text);
    if (!bytes) return fail(Code::internal, "the sandbox sent output that is not base64");
    SPACE_CHECK(write_all(fd, *bytes));
  }
  return {};
}

// "signal: killed" -> 137, as a shell reports it.
int exit_code_of(const JsonObject& end) {
  const auto code = int_member(end, "exitCode", -1, 255);
  if (code && *code && **code >= 0) return static_cast<int>(**code);
  const auto exited = bool_member(end, "exited");
  if (exited && exited->value_or(false)) return 0;
  const auto status = text_member(end, "status");
  const std::string text = status ? status->value_or("") : "";
  if (text == "signal: terminated") return 128 + SIGTERM;
  if (text == "signal: interrupt") return 128 + SIGINT;
  if (text == "signal: segmentation fault") return 128 + SIGSEGV;
  if (text == "signal: aborted") return 128 + SIGABRT;
  return 128 + SIGKILL;
}

// One event of the stream. Some int: the program ended with that code.
Result<std::optional<int>> handle_event(const JsonObject& message,
                                        const std::function<void(std::uint32_t)>& on_start) {
  SPACE_TRY(const JsonObject* event, object_member(message, "event"));
  if (event == nullptr) return std::optional<int>();
  SPACE_TRY(const JsonObject* start, object_member(*event, "start"));
  if (start != nullptr) {
    SPACE_TRY(const auto pid, require_int(*start, "pid", 1, 0x7fffffff));
    on_start(static_cast<std::uint32_t>(pid));
  }
  SPACE_TRY(const JsonObject* data, object_member(*event, "data"));
  if (data != nullptr) SPACE_CHECK(print_data(*data));
  SPACE_TRY(const JsonObject* end, object_member(*event, "end"));
  if (end != nullptr) return exit_code_of(*end);
  return std::optional<int>();
}

Result<int> end_of_stream(const std::string& payload, std::optional<int> exit_code) {
  SPACE_TRY(const JsonObject trailer, parse_json_object(payload, "end of stream"));
  SPACE_TRY(const JsonObject* error, object_member(trailer, "error"));
  if (error != nullptr) {
    SPACE_TRY(const auto code, text_member(*error, "code"));
    SPACE_TRY(const auto message, text_member(*error, "message"));
    return fail(code == "deadline_exceeded" ? Code::deadline : Code::invalid_argument, "{}",
                message.value_or("the command could not be run"));
  }
  if (!exit_code) return fail(Code::internal, "the stream ended before the program did");
  return *exit_code;
}

Task<Result<int>> follow(http::ClientConnection& connection, std::function<void(std::uint32_t)> on_start) {
  connect::EnvelopeReader reader;
  std::optional<int> exit_code;
  std::array<std::byte, 65536> buffer;
  while (true) {
    SPACE_CO_TRY(const std::size_t n, co_await connection.body().read(buffer));
    if (n == 0)
      co_return fail(Code::unavailable, "the connection to the sandbox ended early; was it killed?");
    reader.feed(std::span(buffer).first(n));
    while (true) {
      SPACE_CO_TRY(auto envelope, reader.next());
      if (!envelope) break;
      if ((envelope->flags & connect::flag_end_of_stream) != 0)
        co_return end_of_stream(envelope->payload, exit_code);
      SPACE_CO_TRY(const JsonObject message, parse_json_object(envelope->payload, "event"));
      SPACE_CO_TRY(const auto ended, handle_event(message, on_start));
      if (ended) exit_code = ended;
    }
  }
}

}  // namespace

Task<Result<int>> run_program(const ApiClient& api, const Target& target, ProgramSpec program) {
  const Executor executor = co_await asio::this_coro::executor;
  const Bytes request = connect::envelope(0, to_text(start_request(program)));
  http::RequestHead head = start_head(program);
  head.content_length = request.size();
  SPACE_CO_TRY(auto connection, co_await api.open_daemon(target, std::move(head)));
  SPACE_CO_CHECK(co_await connection->write_body(request));
  SPACE_CO_CHECK(co_await connection->end_request());
  SPACE_CO_TRY(const auto response, co_await connection->read_response(Deadline::after(Millis(60'000))));
  if (response.head.status != 200) {
    auto text = co_await http::read_all(connection->body(), 65536);
    const auto object = parse_json_object(text ? *text : "", "answer");
    const auto message = object ? text_member(*object, "message") : Result<std::optional<std::string>>();
    co_return fail(
        Code::unavailable, "{}",
        message && *message ? **message : fmt::format("the sandbox answered {}", response.head.status));
  }
  std::optional<RawTerminal> raw;
  if (program.terminal) raw.emplace();
  std::shared_ptr<Feeder> feeder;
  const bool feed = program.forward_stdin || program.terminal;
  auto code = co_await follow(*connection, [&](std::uint32_t pid) {
    if (!feed || feeder) return;
    feeder = std::make_shared<Feeder>(executor, api, target, pid, program.terminal);
    feeder->start(executor);
  });
  if (feeder) feeder->stop();
  co_return code;
}

}  // namespace space::cli

#include "guest/process_service.h"

#include <array>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <csignal>

namespace space::guest {

namespace {

using boost::asio::experimental::awaitable_operators::operator||;
using connect::RpcCode;
using connect::RpcError;

constexpr Millis thaw_wait{30'000};

void append(Bytes& out, const Bytes& more) {
  out.insert(out.end(), more.begin(), more.end());
}

std::unexpected<RpcError> rpc_fail(RpcCode code, std::string message) {
  return std::unexpected(RpcError{code, std::move(message)});
}

// One answer stream of Start or Connect.
struct EventStream {
  std::shared_ptr<Process> process;
  Millis keepalive{90'000};
  std::optional<Deadline> deadline;  // of the stream alone (Connect)
  bool ends_on_timeout = false;      // Start: a program killed by its timeout ends the stream with an error
};

Bytes last_envelopes(const EventStream& stream) {
  if (stream.ends_on_timeout && stream.process->timed_out())
    return connect::end_of_stream(
        {RpcCode::deadline_exceeded, "the process was killed: its timeout has passed"});
  Bytes out = connect::envelope(0, end_event(stream.process->exit_status()));
  append(out, connect::end_of_stream());
  return out;
}

// Writes what there is in one piece: a short program costs one write for the head and its start, one for its
// end.
Task<void> write_events(Exchange exchange, EventStream stream) {
  Process::Attachment attachment(stream.process);
  http::ServerExchange& connection = exchange.connection;
  const Bytes start = connect::envelope(0, start_event(static_cast<std::uint32_t>(stream.process->pid())));
  if (!co_await connection.start_response(exchange.answer(200, "application/connect+json"), start)) co_return;
  for (;;) {
    Bytes out = attachment.take();
    if (stream.process->ended() || (stream.ends_on_timeout && stream.process->unkillable())) {
      append(out, last_envelopes(stream));
      (void)co_await connection.end_response(out);
      co_return;
    }
    if (stream.deadline && stream.deadline->passed()) {
      append(out, connect::end_of_stream({RpcCode::deadline_exceeded, "the stream's timeout has passed"}));
      (void)co_await connection.end_response(out);
      co_return;
    }
    if (out.empty()) {
      const Deadline keepalive = Deadline::after(stream.keepalive);
      const bool bounded = stream.deadline && stream.deadline->when() < keepalive.when();
      if (co_await attachment.wait(bounded ? *stream.deadline : keepalive) || bounded) continue;
      out = connect::envelope(0, keepalive_event());
    }
    if (!co_await connection.write_body(out)) co_return;
  }
}

// A client that goes away ends its stream, never the program.
Task<void> serve_events(Exchange exchange, EventStream stream) {
  const auto first = co_await (write_events(exchange, std::move(stream)) || exchange.connection.peer_gone());
  if (first.index() == 1) exchange.connection.abort();
}

RpcResult<std::string> to_answer(const Result<void>& result) {
  if (!result) return std::unexpected(to_rpc(result.error()));
  return "{}";
}

}  // namespace

Task<void> ProcessService::handle(Exchange exchange, std::string method) {
  if (method == "Start") co_return co_await start(exchange);
  if (method == "Connect") co_return co_await connect(exchange);
  if (method == "StreamInput") {
    // A client stream has one answer, framed as a stream.
    auto first = co_await (stream_input(exchange) || exchange.connection.peer_gone());
    if (first.index() == 1) co_return exchange.connection.abort();
    auto& result = std::get<0>(first);
    if (!result) co_return co_await exchange.respond_stream_error(std::move(result).error());
    Bytes body = connect::envelope(0, *result);
    append(body, connect::end_of_stream());
    co_return co_await exchange.respond(200, "application/connect+json", std::string(as_text(body)));
  }
  // Input waits for the program to read it; a client that goes away meanwhile must not leave it queued.
  if (method != "SendInput")
    co_return co_await exchange.respond_rpc(co_await unary(exchange, std::move(method)));
  auto message = co_await exchange.read_message();
  if (!message) co_return co_await exchange.respond_rpc(std::unexpected(std::move(message).error()));
  const auto first = co_await (send_input(*std::move(message)) || exchange.connection.peer_gone());
  if (first.index() == 1) co_return exchange.connection.abort();
  co_await exchange.respond_rpc(std::get<0>(first));
}

Task<void> ProcessService::start(Exchange exchange) {
  auto process = co_await start_process(exchange);
  if (!process) co_return co_await exchange.respond_stream_error(std::move(process).error());
  co_await serve_events(
      exchange,
      {.process = *std::move(process), .keepalive = keepalive_of(exchange.head), .ends_on_timeout = true});
}

Task<RpcResult<std::shared_ptr<Process>>> ProcessService::start_process(Exchange exchange) {
  auto message = co_await exchange.read_single_envelope();
  if (!message) co_return std::unexpected(std::move(message).error());
  auto request = parse_start(*message);
  if (!request) co_return std::unexpected(to_rpc(request.error()));
  const auto timeout = timeout_of(exchange.head);
  if (!timeout) co_return std::unexpected(to_rpc(timeout.error()));
  const auto name = basic_user(exchange.head);
  if (!name) co_return std::unexpected(to_rpc(name.error()));

  const Deadline thaw_deadline = Deadline::after(thaw_wait);
  while (state_.frozen)
    if (!co_await state_.thawed.wait(thaw_deadline))
      co_return rpc_fail(RpcCode::unavailable, "the sandbox is being saved");

  const auto user = state_.users.find(name->value_or(state_.default_user));
  if (!user) co_return std::unexpected(to_rpc(user.error()));
  LaunchContext context{.path = state_.path,
                        .environment = state_.environment,
                        .default_workdir = state_.default_workdir,
                        .cgroup_fd = state_.user_cgroup_fd,
                        .reset_oom_score = state_.reset_oom_score};
  co_return co_await table_.start(*std::move(request), *user, std::move(context), *timeout);
}

Task<void> ProcessService::connect(Exchange exchange) {
  auto process = co_await find_process(exchange);
  if (!process) co_return co_await exchange.respond_stream_error(std::move(process).error());
  const auto timeout = timeout_of(exchange.head);
  if (!timeout) co_return co_await exchange.respond_stream_error(to_rpc(timeout.error()));
  EventStream stream{.process = *std::move(process), .keepalive = keepalive_of(exchange.head)};
  if (*timeout) stream.deadline = Deadline::after(**timeout);
  co_await serve_events(exchange, std::move(stream));
}

Task<RpcResult<std::shared_ptr<Process>>> ProcessService::find_process(Exchange exchange) {
  auto message = co_await exchange.read_single_envelope();
  if (!message) co_return std::unexpected(std::move(message).error());
  const auto selector = parse_selector(*message);
  if (!selector) co_return std::unexpected(to_rpc(selector.error()));
  co_return table_.find_or_recent(*selector);
}

Task<RpcResult<std::string>> ProcessService::unary(Exchange exchange, std::string method) {
  auto message = co_await exchange.read_message();
  if (!message) co_return std::unexpected(std::move(message).error());
  if (method == "List") co_return list();
  if (method == "SendSignal") co_return send_signal(*message);
  if (method == "CloseStdin") co_return close_stdin(*message);
  if (method == "Update") co_return update(*message);
  co_return rpc_fail(RpcCode::unimplemented, fmt::format("process.Process has no method '{}'", method));
}

RpcResult<std::shared_ptr<Process>> ProcessService::select(const JsonObject& message) const {
  const auto selector = parse_selector(message);
  if (!selector) return std::unexpected(to_rpc(selector.error()));
  return table_.find(*selector);
}

RpcResult<std::string> ProcessService::list() const {
  JsonArray processes;
  for (const auto& [pid, process] : table_.running())
    processes.push_back(
        process_info(static_cast<std::uint32_t>(pid), process->request().process, process->request().tag));
  return to_text(JsonObject{{"processes", std::move(processes)}});
}

Task<RpcResult<std::string>> ProcessService::send_input(JsonObject message) {
  auto process = select(message);
  if (!process) co_return std::unexpected(std::move(process).error());
  auto input = parse_input(message);
  if (!input) co_return std::unexpected(to_rpc(input.error()));
  co_return to_answer(co_await (*process)->write_input(*std::move(input)));
}

Task<RpcResult<std::string>> ProcessService::stream_input(Exchange exchange) {
  std::shared_ptr<Process> process;
  connect::EnvelopeReader reader;
  std::array<std::byte, 16 * 1024> buffer;
  for (;;) {
    auto envelope = reader.next();
    if (!envelope) co_return std::unexpected(to_rpc(envelope.error()));
    if (!*envelope) {
      const auto count = co_await exchange.connection.body().read(buffer);
      if (!count) co_return std::unexpected(to_rpc(count.error()));
      if (*count == 0) co_return "{}";
      reader.feed(std::span(buffer).first(*count));
      continue;
    }
    if (((*envelope)->flags & connect::flag_end_of_stream) != 0) co_return "{}";
    const auto object = parse_json_object((*envelope)->payload, "the request");
    if (!object) co_return std::unexpected(to_rpc(object.error()));
    auto message = parse_stream_input(*object);
    if (!message) co_return std::unexpected(to_rpc(message.error()));
    if (message->start) {
      auto found = table_.find(*message->start);
      if (!found) co_return std::unexpected(std::move(found).error());
      process = *std::move(found);
    }
    if (!message->data) continue;
    if (!process) co_return rpc_fail(RpcCode::invalid_argument, "the first message must name the process");
    const auto written = co_await process->write_input(*std::move(message->data));
    if (!written) co_return std::unexpected(to_rpc(written.error()));
  }
}

RpcResult<std::string> ProcessService::send_signal(const JsonObject& message) {
  auto process = select(message);
  if (!process) return std::unexpected(std::move(process).error());
  const auto name = parse_signal(message);
  if (!name) return std::unexpected(to_rpc(name.error()));
  if (*name == "SIGNAL_SIGKILL") return to_answer((*process)->signal(SIGKILL));
  if (*name == "SIGNAL_SIGTERM") return to_answer((*process)->signal(SIGTERM));
  return rpc_fail(RpcCode::unimplemented, fmt::format("signal {} is not supported", *name));
}

RpcResult<std::string> ProcessService::close_stdin(const JsonObject& message) {
  auto process = select(message);
  if (!process) return std::unexpected(std::move(process).error());
  const auto closed = (*process)->close_stdin();
  if (!closed) return rpc_fail(RpcCode::unknown, closed.error().message);
  return "{}";
}

RpcResult<std::string> ProcessService::update(const JsonObject& message) {
  auto process = select(message);
  if (!process) return std::unexpected(std::move(process).error());
  const auto size = parse_terminal(message);
  if (!size) return std::unexpected(to_rpc(size.error()));
  if (!*size) return "{}";
  return to_answer((*process)->resize(**size));
}

}  // namespace space::guest

#include "guest/filesystem_service.h"

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/path_text.h"
#include "guest/file_tree.h"

namespace space::guest {

namespace {

using boost::asio::experimental::awaitable_operators::operator||;
using connect::RpcCode;
using connect::RpcError;

constexpr std::size_t list_limit_bytes = 64 * 1024 * 1024;  // of the answer
constexpr std::size_t write_bytes = 256 * 1024;             // of events in one piece
constexpr std::size_t polled_max = 64;
constexpr Millis polled_abandoned{600'000};  // not asked for so long: may make room for another

// Here a conflict is a state that does not allow the call; what exists already is told apart where it
// matters.
std::unexpected<RpcError> failure(const Error& error) {
  return std::unexpected(
      RpcError{error.code == Code::conflict ? RpcCode::failed_precondition : connect::rpc_code(error.code),
               error.message});
}
std::unexpected<RpcError> failure(RpcCode code, std::string message) {
  return std::unexpected(RpcError{code, std::move(message)});
}

std::string joined(const std::vector<std::string>& texts) {
  std::string result;
  for (const std::string& text : texts) {
    if (!result.empty()) result += ',';
    result += text;
  }
  return result;
}

Result<std::string> list_as_json(const std::string& path, std::uint32_t depth, const AccountNames& names) {
  std::string text = R"({"entries":[)";
  const auto append = [&text](const EntryInfo& entry) -> Result<void> {
    if (text.back() == '}') text += ',';
    append_entry_json(text, entry);
    if (text.size() <= list_limit_bytes) return {};
    return fail(Code::exhausted,
                "the list is longer than {} MiB; list fewer levels, or the folders one by one",
                list_limit_bytes >> 20U);
  };
  SPACE_CHECK(list_folder(path, depth, names, append));
  return text + "]}";
}

struct WatchStream {
  std::shared_ptr<Watcher> watcher;
  Millis keepalive{90'000};
  std::optional<Deadline> deadline;
};

// Nothing: the wait may go on.
std::optional<RpcError> end_of(const WatchStream& stream) {
  if (const RpcError* end = stream.watcher->end()) return *end;
  if (stream.deadline && stream.deadline->passed())
    return RpcError{RpcCode::deadline_exceeded, "the stream's timeout has passed"};
  return std::nullopt;
}

Bytes take_events(Watcher& watcher) {
  Bytes out;
  for (const std::string& event : watcher.take(write_bytes)) {
    const Bytes message = connect::envelope(0, fmt::format(R"({{"filesystem":{}}})", event));
    out.insert(out.end(), message.begin(), message.end());
  }
  return out;
}

Task<void> write_events(Exchange exchange, WatchStream stream) {
  auto& connection = exchange.connection;
  const Bytes start = connect::envelope(0, R"({"start":{}})");
  if (!co_await connection.start_response(exchange.answer(200, "application/connect+json"), start)) co_return;
  for (;;) {
    Bytes out = take_events(*stream.watcher);
    if (out.empty()) {
      if (const auto end = end_of(stream)) {
        (void)co_await connection.end_response(connect::end_of_stream(*end));
        co_return;
      }
      const Deadline keepalive = Deadline::after(stream.keepalive);
      const bool bounded = stream.deadline && stream.deadline->when() < keepalive.when();
      if (co_await stream.watcher->wait(bounded ? *stream.deadline : keepalive) || bounded) continue;
      out = connect::envelope(0, R"({"keepalive":{}})");
    }
    if (!co_await connection.write_body(out)) co_return;
  }
}

}  // namespace

Task<void> FilesystemService::handle(Exchange exchange, std::string method) {
  if (method == "WatchDir") co_return co_await watch_dir(exchange);
  co_await exchange.respond_rpc(co_await unary(exchange, std::move(method)));
}

Task<FilesystemService::Answer> FilesystemService::unary(Exchange exchange, std::string method) {
  auto message = co_await exchange.read_message();
  if (!message) co_return std::unexpected(std::move(message).error());
  if (method == "GetWatcherEvents") co_return watcher_events(*message);
  if (method == "RemoveWatcher") co_return remove_watcher(*message);
  auto user = user_of(exchange);
  if (!user) co_return std::unexpected(std::move(user).error());
  if (method == "Stat") co_return co_await stat(*std::move(user), *std::move(message));
  if (method == "MakeDir") co_return co_await make_dir(*std::move(user), *std::move(message));
  if (method == "Move") co_return co_await move(*std::move(user), *std::move(message));
  if (method == "ListDir") co_return co_await list(*std::move(user), *std::move(message));
  if (method == "Remove") co_return co_await remove(*std::move(user), *std::move(message));
  if (method == "CreateWatcher") co_return co_await create_watcher(*std::move(user), *std::move(message));
  co_return failure(RpcCode::unimplemented, fmt::format("filesystem.Filesystem has no method '{}'", method));
}

RpcResult<User> FilesystemService::user_of(const Exchange& exchange) {
  const auto name = basic_user(exchange.head);
  if (!name) return failure(name.error());
  auto user = state_.users.find(name->value_or(state_.default_user));
  if (!user) return failure(user.error());
  return *std::move(user);
}

Task<FilesystemService::Answer> FilesystemService::entry_at(std::string path) {
  const auto names = state_.users.names();
  const auto entry = co_await run_blocking([&] { return read_entry(path, *names); });
  if (!entry) co_return failure(entry.error());
  std::string text = R"({"entry":)";
  append_entry_json(text, *entry);
  co_return text + '}';
}

Task<FilesystemService::Answer> FilesystemService::stat(User user, JsonObject message) {
  const auto wanted = parse_path(message);
  if (!wanted) co_return failure(wanted.error());
  auto path = resolve_path(*wanted, user, state_.default_workdir);
  if (!path) co_return failure(path.error());
  co_return co_await entry_at(*std::move(path));
}

Task<FilesystemService::Answer> FilesystemService::make_dir(User user, JsonObject message) {
  const auto wanted = parse_required_path(message);
  if (!wanted) co_return failure(wanted.error());
  auto path = resolve_path(*wanted, user, state_.default_workdir);
  if (!path) co_return failure(path.error());
  const auto made = co_await run_blocking([&] { return make_folder(*path, user); });
  if (!made) co_return failure(made.error());
  if (!*made)
    co_return failure(RpcCode::already_exists,
                      fmt::format("directory already exists: '{}'", shown_path(*path)));
  co_return co_await entry_at(*std::move(path));
}

Task<FilesystemService::Answer> FilesystemService::move(User user, JsonObject message) {
  const auto wanted = parse_move(message);
  if (!wanted) co_return failure(wanted.error());
  const auto source = resolve_path(wanted->source, user, state_.default_workdir);
  if (!source) co_return failure(source.error());
  auto destination = resolve_path(wanted->destination, user, state_.default_workdir);
  if (!destination) co_return failure(destination.error());
  const auto moved = co_await run_blocking([&] { return move_file(*source, *destination, user); });
  if (!moved) co_return failure(moved.error());
  co_return co_await entry_at(*std::move(destination));
}

Task<FilesystemService::Answer> FilesystemService::list(User user, JsonObject message) {
  const auto wanted = parse_list(message);
  if (!wanted) co_return failure(wanted.error());
  const auto path = resolve_path(wanted->path, user, state_.default_workdir);
  if (!path) co_return failure(path.error());
  const auto names = state_.users.names();
  auto text = co_await run_blocking([&] { return list_as_json(*path, wanted->depth, *names); });
  if (!text) co_return failure(text.error());
  co_return *std::move(text);
}

Task<FilesystemService::Answer> FilesystemService::remove(User user, JsonObject message) {
  const auto wanted = parse_required_path(message);
  if (!wanted) co_return failure(wanted.error());
  const auto path = resolve_path(*wanted, user, state_.default_workdir);
  if (!path) co_return failure(path.error());
  const auto removed = co_await run_blocking([&] { return remove_tree(*path); });
  if (!removed) co_return failure(removed.error());
  co_return "{}";
}

Task<RpcResult<std::shared_ptr<Watcher>>> FilesystemService::open_watcher(User user, JsonObject message) {
  const auto wanted = parse_watch(message);
  if (!wanted) co_return failure(wanted.error());
  auto path = resolve_path(wanted->path, user, state_.default_workdir);
  if (!path) co_return failure(path.error());
  auto watcher = co_await Watcher::open({.path = *std::move(path),
                                         .recursive = wanted->recursive,
                                         .include_entry = wanted->include_entry,
                                         .allow_network_mounts = wanted->allow_network_mounts,
                                         .names = state_.users.names()});
  if (!watcher) co_return failure(watcher.error());
  co_return *std::move(watcher);
}

Task<RpcResult<std::shared_ptr<Watcher>>> FilesystemService::open_stream(Exchange exchange) {
  auto message = co_await exchange.read_single_envelope();
  if (!message) co_return std::unexpected(std::move(message).error());
  auto user = user_of(exchange);
  if (!user) co_return std::unexpected(std::move(user).error());
  co_return co_await open_watcher(*std::move(user), *std::move(message));
}

Task<void> FilesystemService::watch_dir(Exchange exchange) {
  const auto timeout = timeout_of(exchange.head);
  if (!timeout) co_return co_await exchange.respond_stream_error(to_rpc(timeout.error()));
  WatchStream stream{.keepalive = keepalive_of(exchange.head)};
  if (*timeout) stream.deadline = Deadline::after(**timeout);
  auto watcher = co_await open_stream(exchange);
  if (!watcher) co_return co_await exchange.respond_stream_error(std::move(watcher).error());
  struct Close {
    std::shared_ptr<Watcher> watcher;
    ~Close() { watcher->close(); }
  } close{*watcher};
  stream.watcher = *std::move(watcher);
  const auto first = co_await (write_events(exchange, std::move(stream)) || exchange.connection.peer_gone());
  if (first.index() == 1) exchange.connection.abort();
}

Task<FilesystemService::Answer> FilesystemService::create_watcher(User user, JsonObject message) {
  constexpr std::string_view too_many = "too many watchers; remove some";
  if (!make_room()) co_return failure(RpcCode::resource_exhausted, std::string(too_many));
  auto watcher = co_await open_watcher(std::move(user), std::move(message));
  if (!watcher) co_return std::unexpected(std::move(watcher).error());
  if (!make_room()) {  // others came while this one was opened
    (*watcher)->close();
    co_return failure(RpcCode::resource_exhausted, std::string(too_many));
  }
  const std::string id = fmt::format("w{}", ++watchers_made_);
  polled_.emplace(id, Polled{.watcher = *std::move(watcher), .asked = system_clock().monotonic()});
  co_return fmt::format(R"({{"watcherId":"{}"}})", id);
}

// A client that forgot its watcher, or is gone, must not keep others out for ever.
bool FilesystemService::make_room() {
  if (polled_.size() < polled_max) return true;
  const auto oldest =
      std::ranges::min_element(polled_, {}, [](const auto& entry) { return entry.second.asked; });
  if (system_clock().monotonic() - oldest->second.asked < polled_abandoned) return false;
  oldest->second.watcher->close();
  polled_.erase(oldest);
  return true;
}

FilesystemService::Answer FilesystemService::watcher_events(const JsonObject& message) {
  const auto id = parse_watcher_id(message);
  if (!id) return failure(id.error());
  const auto found = polled_.find(*id);
  if (found == polled_.end())
    return failure(RpcCode::not_found, fmt::format("watcher with id '{}' not found", *id));
  found->second.asked = system_clock().monotonic();
  Watcher& watcher = *found->second.watcher;
  if (const RpcError* end = watcher.end()) return std::unexpected(*end);
  return fmt::format(R"({{"events":[{}]}})", joined(watcher.take(SIZE_MAX)));
}

FilesystemService::Answer FilesystemService::remove_watcher(const JsonObject& message) {
  const auto id = parse_watcher_id(message);
  if (!id) return failure(id.error());
  const auto found = polled_.find(*id);
  if (found == polled_.end())
    return failure(RpcCode::not_found, fmt::format("watcher with id '{}' not found", *id));
  found->second.watcher->close();
  polled_.erase(found);
  return "{}";
}

}  // namespace space::guest

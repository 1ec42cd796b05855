#include "cli/remote_files.h"

#include <charconv>
#include <ctime>

#include "base/path_text.h"
#include "net/h2_session.h"

namespace space::cli {

namespace {

constexpr Millis answer_patience{120'000};
constexpr std::int64_t size_max = std::int64_t{1} << 60;

// "2026-01-02T03:04:05.123456789Z"; 0 if it is none.
std::int64_t parse_time(const std::string& text) {
  std::tm time{};
  const char* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
  if (rest == nullptr) return 0;
  std::int64_t nanoseconds = 0;
  std::int64_t unit = 100'000'000;
  if (*rest == '.')
    for (++rest; *rest >= '0' && *rest <= '9' && unit > 0; ++rest, unit /= 10)
      nanoseconds += (*rest - '0') * unit;
  return ::timegm(&time) * 1'000'000'000LL + nanoseconds;
}

// int64 is text in protobuf's JSON.
Result<std::uint64_t> size_member(const JsonObject& object) {
  const Json* value = object.if_contains("size");
  if (value == nullptr || !value->is_string()) {
    SPACE_TRY(const auto number, int_member(object, "size", 0, size_max));
    return static_cast<std::uint64_t>(number.value_or(0));
  }
  const std::string_view text = value->get_string();
  std::uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size > size_max)
    return fail(Code::internal, "the sandbox sent a file size that is none");
  return size;
}

Result<RemoteEntry> parse_entry(const JsonObject& object) {
  RemoteEntry remote;
  SPACE_TRY(const auto name, require_text(object, "name"));
  SPACE_TRY(const auto path, require_text(object, "path"));
  remote.entry.name = path_of_text(name);
  remote.path = path_of_text(path);
  SPACE_TRY(remote.entry.size, size_member(object));
  SPACE_TRY(const auto mode, int_member(object, "mode", 0, 07777));
  remote.entry.mode = static_cast<unsigned>(mode.value_or(0)) & 0777U;
  SPACE_TRY(const auto modified, text_member(object, "modifiedTime"));
  remote.entry.modified_ns = parse_time(modified.value_or(""));
  SPACE_TRY(const auto target, text_member(object, "symlinkTarget"));
  remote.target = path_of_text(target.value_or(""));
  SPACE_TRY(const auto type, text_member(object, "type"));
  if (type == "FILE_TYPE_FILE") remote.entry.kind = Entry::Kind::file;
  if (type == "FILE_TYPE_DIRECTORY") remote.entry.kind = Entry::Kind::directory;
  return remote;
}

Task<Error> refusal_of(http::ClientConnection& connection, int status) {
  const auto text = co_await http::read_all(connection.body(), 65536);
  const auto object = parse_json_object(text ? *text : "", "answer");
  const auto message = object ? text_member(*object, "message") : Result<std::optional<std::string>>();
  const Code code = status == 507 ? Code::exhausted : code_of_http_status(status);
  co_return Error{code, message && *message ? **message : fmt::format("the sandbox answered {}", status)};
}

// "bytes 5-9/10" begins at 5.
bool begins_at(std::string_view content_range, std::uint64_t offset) {
  return content_range.starts_with(fmt::format("bytes {}-", offset));
}

}  // namespace

Task<Result<JsonObject>> RemoteFiles::call(std::string method, JsonObject request) const {
  co_return co_await api_.daemon_call(*target_, "/filesystem.Filesystem/" + method, std::move(request),
                                      nullptr, user_);
}

std::string RemoteFiles::files_target(std::string_view path) const {
  std::string target = "/files?path=" + http::percent_encode(text_of_path(path));
  if (!user_.empty()) target += "&username=" + http::percent_encode(user_);
  return target;
}

Task<Result<std::optional<RemoteEntry>>> RemoteFiles::stat(std::string path) const {
  const auto answer = co_await call("Stat", JsonObject{{"path", text_of_path(path)}});
  if (!answer && answer.error().code == Code::not_found) co_return std::nullopt;
  if (!answer) co_return std::unexpected(answer.error());
  SPACE_CO_TRY(const JsonObject* entry, object_member(*answer, "entry"));
  if (entry == nullptr) co_return fail(Code::internal, "the sandbox said nothing of {}", path);
  co_return parse_entry(*entry);
}

Task<Result<std::vector<RemoteEntry>>> RemoteFiles::list(std::string path) const {
  SPACE_CO_TRY(const JsonObject answer,
               co_await call("ListDir", JsonObject{{"path", text_of_path(path)}, {"depth", 1}}));
  SPACE_CO_TRY(const JsonArray* entries, array_member(answer, "entries"));
  std::vector<RemoteEntry> listed;
  if (entries == nullptr) co_return listed;
  for (const Json& item : *entries) {
    if (!item.is_object()) continue;
    SPACE_CO_TRY(RemoteEntry entry, parse_entry(item.get_object()));
    if (!is_file_name(entry.entry.name))
      co_return fail(Code::permission_denied, "the sandbox lists '{}' in {}, which no folder can hold",
                     entry.entry.name, path);
    if (!entry.target.empty()) entry.entry.kind = Entry::Kind::link;
    listed.push_back(std::move(entry));
  }
  co_return listed;
}

Task<Result<bool>> RemoteFiles::make_directory(std::string path) const {
  const auto made = co_await call("MakeDir", JsonObject{{"path", text_of_path(path)}});
  if (made) co_return true;
  if (made.error().code != Code::conflict) co_return std::unexpected(made.error());
  SPACE_CO_TRY(const auto there, co_await stat(path));
  if (!there || there->entry.kind != Entry::Kind::directory) co_return std::unexpected(made.error());
  co_return false;
}

Task<Result<void>> RemoteFiles::move(std::string from, std::string to) const {
  SPACE_CO_CHECK(
      co_await call("Move", JsonObject{{"source", text_of_path(from)}, {"destination", text_of_path(to)}}));
  co_return Result<void>();
}

Task<Result<void>> RemoteFiles::compose(std::vector<std::string> parts, std::string path) const {
  JsonArray sources;
  for (const std::string& part : parts) sources.emplace_back(text_of_path(part));
  JsonObject request{{"source_paths", std::move(sources)}, {"destination", text_of_path(path)}};
  if (!user_.empty()) request["username"] = user_;
  SPACE_CO_CHECK(co_await api_.daemon_call(*target_, "/files/compose", std::move(request)));
  co_return Result<void>();
}

Task<Result<RemoteFiles::Download>> RemoteFiles::download(std::string path, std::uint64_t offset) const {
  http::RequestHead head;
  head.method = "GET";
  head.target = files_target(path);
  if (offset > 0) head.fields.add("Range", fmt::format("bytes={}-", offset));
  SPACE_CO_TRY(auto connection, co_await api_.open_daemon(*target_, std::move(head)));
  SPACE_CO_CHECK(co_await connection->end_request());
  SPACE_CO_TRY(const auto response, co_await connection->read_response(Deadline::after(answer_patience)));
  if (response.head.status != (offset > 0 ? 206 : 200))
    co_return std::unexpected(co_await refusal_of(*connection, response.head.status));
  if (offset > 0 && !begins_at(response.head.fields.get("Content-Range").value_or(""), offset))
    co_return fail(Code::internal, "the sandbox sent another part of {} than was asked for", path);
  co_return Download{std::move(connection), response.head.content_length};
}

Task<Result<std::unique_ptr<http::ClientConnection>>> RemoteFiles::upload(
    std::string path, std::optional<std::uint64_t> size) const {
  http::RequestHead head;
  head.method = "POST";
  head.target = files_target(path);
  head.fields.add("Content-Type", "application/octet-stream");
  head.content_length = size;
  head.chunked = !size;
  co_return co_await api_.open_daemon(*target_, std::move(head));
}

Task<Result<void>> RemoteFiles::finish_upload(http::ClientConnection& connection) {
  // A refusal may come, and the connection end, before all was written: the answer is what counts.
  const auto ended = co_await connection.end_request();
  const auto response = co_await connection.read_response(Deadline::after(answer_patience));
  if (!response) co_return std::unexpected(ended ? response.error() : ended.error());
  if (response->head.status == 200) co_return Result<void>();
  co_return std::unexpected(co_await refusal_of(connection, response->head.status));
}

}  // namespace space::cli

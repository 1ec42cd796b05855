#include "guest/files.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "guest/file_io.h"
#include "guest/multipart.h"

namespace space::guest {

namespace {

int status_of(const Error& error) {
  switch (error.code) {
    case Code::invalid_argument:
      return 400;
    case Code::unauthenticated:
      return 401;
    case Code::permission_denied:
      return 403;
    case Code::not_found:
      return 404;
    case Code::conflict:
      return 409;
    case Code::exhausted:
      return 507;
    default:
      return 500;
  }
}

std::string http_date(time_t seconds) {
  struct tm parts{};
  ::gmtime_r(&seconds, &parts);
  static constexpr std::array<std::string_view, 7> days = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr std::array<std::string_view, 12> months = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                              "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", days[static_cast<std::size_t>(parts.tm_wday)],
                     parts.tm_mday, months[static_cast<std::size_t>(parts.tm_mon)], parts.tm_year + 1900,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// A name that is plain ASCII goes in quotes; any other in the encoded form of RFC 6266.
std::string content_disposition(std::string_view name) {
  const bool plain =
      std::ranges::all_of(name, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  return plain ? fmt::format("inline; filename=\"{}\"", name)
               : fmt::format("inline; filename*=UTF-8''{}", http::percent_encode(name));
}

// A file that shrinks while it is sent ends as a broken connection, never as a short file.
Task<void> send_rest(Exchange exchange, OpenFile file) {
  http::ServerExchange& connection = exchange.connection;
  const auto size = static_cast<std::uint64_t>(file.status.st_size);
  std::uint64_t left = size == 0 ? UINT64_MAX : size;  // procfs and its like say 0: until the end of the file
  Bytes bytes = std::move(file.first);
  while (!bytes.empty() && left > 0) {
    const auto piece = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), left));
    if (!co_await connection.write_body(piece)) co_return;
    left -= piece.size();
    if (left == 0) break;
    auto next = co_await run_blocking([fd = file.fd.get()] { return read_chunk(fd); });
    if (!next) co_return connection.abort();
    bytes = *std::move(next);
  }
  if (size != 0 && left > 0) co_return connection.abort();
  (void)co_await connection.end_response();
}

// Writes the files of one upload and remembers what the answer lists.
class Upload {
 public:
  Upload(User user, std::string default_workdir)
      : user_(std::move(user)), workdir_(std::move(default_workdir)) {}

  Task<Result<void>> open(std::string path) {
    SPACE_CO_TRY(path, resolve_path(path, user_, workdir_));
    if (std::ranges::find(paths_, path) != paths_.end())
      co_return fail(Code::invalid_argument, "path '{}' is uploaded twice", path);
    SPACE_CO_TRY(file_, co_await run_blocking([&] { return open_to_write(path, user_); }));
    paths_.push_back(std::move(path));
    co_return Result<void>();
  }
  Task<Result<void>> write(std::string_view bytes) {
    pending_ += bytes;
    if (pending_.size() < file_chunk_bytes) co_return Result<void>();
    co_return co_await flush();
  }
  Task<Result<void>> close() {
    auto flushed = co_await flush();
    file_.reset();
    co_return flushed;
  }
  bool is_open() const { return static_cast<bool>(file_); }
  std::string answer() const {
    JsonArray entries;
    for (const std::string& path : paths_)
      entries.push_back(JsonObject{{"path", path}, {"name", base_name(path)}, {"type", "file"}});
    return to_text(entries);
  }

 private:
  Task<Result<void>> flush() {
    auto written = co_await run_blocking([&] { return write_all(file_.get(), as_bytes(pending_)); });
    pending_.clear();
    co_return written;
  }

  User user_;
  std::string workdir_;
  std::vector<std::string> paths_;
  Fd file_;
  std::string pending_;
};

Task<Result<void>> receive_raw(Exchange exchange, Upload& upload, std::string path) {
  SPACE_CO_CHECK(co_await upload.open(std::move(path)));
  std::array<std::byte, 16 * 1024> buffer;
  for (;;) {
    SPACE_CO_TRY(const std::size_t count, co_await exchange.connection.body().read(buffer));
    if (count == 0) break;
    SPACE_CO_CHECK(co_await upload.write(as_text(std::span(buffer).first(count))));
  }
  co_return co_await upload.close();
}

// Parts not named "file" are ignored. `path`, when given, overrides the part's own.
Task<Result<void>> receive_part(MultipartReader::Event event, Upload& upload, std::string path) {
  switch (event.kind) {
    case MultipartReader::Kind::part:
      if (event.name == "file")
        co_return co_await upload.open(path.empty() ? std::move(event.filename) : path);
      break;
    case MultipartReader::Kind::data:
      if (upload.is_open()) co_return co_await upload.write(event.data);
      break;
    case MultipartReader::Kind::part_end:
      if (upload.is_open()) co_return co_await upload.close();
      break;
    case MultipartReader::Kind::end:
      break;
  }
  co_return Result<void>();
}

Task<Result<void>> receive_multipart(Exchange exchange, Upload& upload, std::string path,
                                     std::string boundary) {
  MultipartReader reader(boundary);
  std::array<std::byte, 16 * 1024> buffer;
  for (;;) {
    SPACE_CO_TRY(auto event, reader.next());
    if (event && event->kind == MultipartReader::Kind::end) co_return Result<void>();
    if (event) {
      SPACE_CO_CHECK(co_await receive_part(*std::move(event), upload, path));
      continue;
    }
    SPACE_CO_TRY(const std::size_t count, co_await exchange.connection.body().read(buffer));
    if (count == 0) co_return fail(Code::invalid_argument, "the multipart body ends too early");
    reader.feed(std::span(buffer).first(count));
  }
}

}  // namespace

Result<User> FileService::user_of(const Exchange& exchange) {
  const auto name = http::query_value(exchange.head.query(), "username");
  return state_.users.find(name && !name->empty() ? *name : state_.default_user);
}

Task<void> FileService::read(Exchange exchange) {
  const auto user = user_of(exchange);
  if (!user) co_return co_await exchange.respond_error(401, user.error().message);
  const std::string wanted = http::query_value(exchange.head.query(), "path").value_or("");
  const auto path = resolve_path(wanted, *user, state_.default_workdir);
  if (!path) co_return co_await exchange.respond_error(400, path.error().message);
  auto file = co_await run_blocking([&] { return open_to_read(*path); });
  if (!file) co_return co_await exchange.respond_error(status_of(file.error()), file.error().message);

  http::ResponseHead head = exchange.answer(200, "application/octet-stream");
  head.fields.add("Vary", "Accept-Encoding");
  head.fields.add("Last-Modified", http_date(file->status.st_mtim.tv_sec));
  head.fields.add("Content-Disposition", content_disposition(base_name(*path)));
  if (file->whole) {
    (void)co_await exchange.connection.respond(std::move(head), as_text(file->first));
    co_return;
  }
  if (file->status.st_size > 0) head.content_length = static_cast<std::uint64_t>(file->status.st_size);
  if (!co_await exchange.connection.start_response(std::move(head))) co_return;
  co_await send_rest(exchange, *std::move(file));
}

Task<void> FileService::write(Exchange exchange) {
  const auto user = user_of(exchange);
  if (!user) co_return co_await exchange.respond_error(401, user.error().message);
  const auto encoding = exchange.head.fields.get("Content-Encoding").value_or("identity");
  if (encoding != "identity")
    co_return co_await exchange.respond_error(
        415, fmt::format("content encoding '{}' is not supported", encoding));
  const std::string path = http::query_value(exchange.head.query(), "path").value_or("");
  const std::string_view type = exchange.head.fields.get("Content-Type").value_or("");
  const auto boundary = multipart_boundary(type);
  if (!boundary && path.empty())
    co_return co_await exchange.respond_error(400, "query parameter 'path' is missing");

  Upload upload(*user, state_.default_workdir);
  const auto received = boundary ? co_await receive_multipart(exchange, upload, path, *boundary)
                                 : co_await receive_raw(exchange, upload, path);
  if (!received)
    co_return co_await exchange.respond_error(status_of(received.error()), received.error().message);
  co_await exchange.respond(200, "application/json", upload.answer());
}

}  // namespace space::guest

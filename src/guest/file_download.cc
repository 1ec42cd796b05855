#include "guest/file_download.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "guest/file_io.h"
#include "guest/file_selection.h"
#include "guest/gzip.h"
#include "guest/http_date.h"

namespace space::guest {

namespace {

// The bytes to send of an open file, piece by piece.
class FileSource {
 public:
  explicit FileSource(OpenFile file) : file_(std::move(file)) {}

  // nullopt: known once it was read. A file that says 0 or less than it holds (procfs, sysfs) is read to its
  // end.
  std::optional<std::uint64_t> size() const {
    if (file_.whole) return file_.first.size();
    if (file_.status.st_size == 0) return std::nullopt;
    return static_cast<std::uint64_t>(file_.status.st_size);
  }
  const struct stat& status() const { return file_.status; }

  // Before the first piece: only these bytes.
  Result<void> select(std::uint64_t first, std::uint64_t length) {
    begin_ = first;
    left_ = length;
    const auto offset = static_cast<off_t>(first);
    if (first < file_.first.size() || ::lseek(file_.fd.get(), offset, SEEK_SET) == offset) return {};
    return fail_errno(errno, "seek in the file");
  }
  // Valid until the next call; empty at the end. A file that shrank meanwhile is an error, never a short
  // file.
  Task<Result<std::span<const std::byte>>> next() {
    using Piece = std::span<const std::byte>;
    if (left_ == 0) co_return Piece();
    if (begin_ >= file_.first.size() && !file_.whole) {
      SPACE_CO_TRY(file_.first, co_await run_blocking([fd = file_.fd.get()] { return read_chunk(fd); }));
      begin_ = 0;
    }
    const auto here = Piece(file_.first).subspan(std::min<std::uint64_t>(begin_, file_.first.size()));
    const auto piece = here.first(std::min<std::uint64_t>(here.size(), left_));
    if (piece.empty() && left_ != unknown)
      co_return fail(Code::unavailable, "the file shrank while it was sent");
    begin_ = file_.first.size();
    if (left_ != unknown) left_ -= piece.size();
    co_return piece;
  }

 private:
  static constexpr std::uint64_t unknown = UINT64_MAX;
  OpenFile file_;
  std::uint64_t begin_ = 0;  // in file_.first, or of the file before anything is read
  std::uint64_t left_ = unknown;
};

FileVersion version_of(const FileSource& source) {
  FileVersion version{.size = source.size()};
  const struct stat& status = source.status();
  if (status.st_size == 0 && version.size != 0) return version;  // procfs: a moment means nothing there
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  version.etag = etag_of(status, now);
  version.modified = status.st_mtim.tv_sec;
  return version;
}

// A name that is plain ASCII goes in quotes; any other in the encoded form of RFC 6266.
std::string content_disposition(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const bool plain =
      std::ranges::all_of(name, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
  return plain ? fmt::format("inline; filename=\"{}\"", name)
               : fmt::format("inline; filename*=UTF-8''{}", http::percent_encode(name));
}

// Fields that say which version of the file the answer is about.
void add_version(http::ResponseHead& head, const FileVersion& file, bool gzip) {
  head.fields.add("Vary", "Accept-Encoding");
  if (file.modified) head.fields.add("Last-Modified", to_http_date(*file.modified));
  if (!file.etag.empty())
    head.fields.add("ETag", gzip && file.etag.starts_with('"') ? "W/" + file.etag : file.etag);
}

Task<void> send_refusal(Exchange exchange, int status, FileVersion file) {
  if (status == 304) {
    http::ResponseHead head = exchange.answer(304, "");
    add_version(head, file, false);
    (void)co_await exchange.connection.respond(std::move(head), "");
    co_return;
  }
  if (status == 416) {
    http::ResponseHead head = exchange.answer(416, "application/json");
    head.fields.add("Content-Range", fmt::format("bytes */{}", file.size.value_or(0)));
    (void)co_await exchange.connection.respond(std::move(head),
                                               R"({"code":416,"message":"the file has no such range"})");
    co_return;
  }
  co_await exchange.respond_error(status, status == 406
                                              ? "neither gzip nor the plain file is acceptable to the client"
                                              : "the file has changed, or is not the one that was meant");
}

Task<void> send_plain(Exchange exchange, http::ResponseHead head, FileSource source) {
  auto piece = co_await source.next();
  if (!piece) co_return exchange.connection.abort();
  // A small file leaves in one write with its head.
  auto sent = co_await exchange.connection.start_response(std::move(head), *piece);
  while (sent && !piece->empty()) {
    piece = co_await source.next();
    if (!piece) co_return exchange.connection.abort();
    if (!piece->empty()) sent = co_await exchange.connection.write_body(*piece);
  }
  if (sent) (void)co_await exchange.connection.end_response();
}

Task<void> send_compressed(Exchange exchange, http::ResponseHead head, FileSource source) {
  Compressor compressor;
  auto sent = co_await exchange.connection.start_response(std::move(head));
  for (bool last = false; sent && !last;) {
    const auto piece = co_await source.next();
    if (!piece) co_return exchange.connection.abort();
    last = piece->empty();
    const Bytes bytes = co_await run_blocking([&] { return compressor.compress(*piece, last); });
    if (!bytes.empty()) sent = co_await exchange.connection.write_body(bytes);
  }
  if (sent) (void)co_await exchange.connection.end_response();
}

// The head of a 200 or 206.
http::ResponseHead file_head(const Exchange& exchange, std::string_view path, const FileVersion& file,
                             const Selection& selection) {
  http::ResponseHead head = exchange.answer(selection.status, "application/octet-stream");
  head.fields.add("X-Content-Type-Options", "nosniff");
  head.fields.add("Content-Disposition", content_disposition(path));
  add_version(head, file, selection.gzip);
  if (file.size) head.fields.add("Accept-Ranges", "bytes");
  if (selection.gzip) head.fields.add("Content-Encoding", "gzip");
  if (!selection.gzip) head.content_length = file.size;
  if (selection.status == 206) {
    head.fields.add("Content-Range", fmt::format("bytes {}-{}/{}", selection.first,
                                                 selection.first + selection.length - 1, *file.size));
    head.content_length = selection.length;
  }
  return head;
}

}  // namespace

Task<void> send_file(Exchange exchange, std::string path) {
  auto file = co_await run_blocking([&] { return open_to_read(path); });
  if (!file) co_return co_await exchange.respond_error(file_error_status(file.error()), file.error().message);
  FileSource source(*std::move(file));
  const FileVersion version = version_of(source);
  Selection selection = select(exchange.head, version);
  if (selection.status != 200 && selection.status != 206)
    co_return co_await send_refusal(exchange, selection.status, version);
  if (version.size == 0) selection.gzip = false;  // nothing is shorter than nothing
  const auto length = selection.status == 206 ? std::optional(selection.length) : version.size;
  if (length) {
    if (const auto selected = source.select(selection.first, *length); !selected)
      co_return co_await exchange.respond_error(500, selected.error().message);
  }
  http::ResponseHead head = file_head(exchange, path, version, selection);
  if (exchange.head.method == "HEAD") {
    if (co_await exchange.connection.start_response(std::move(head)))
      (void)co_await exchange.connection.end_response();
  } else if (selection.gzip) {
    co_await send_compressed(exchange, std::move(head), std::move(source));
  } else {
    co_await send_plain(exchange, std::move(head), std::move(source));
  }
}

}  // namespace space::guest

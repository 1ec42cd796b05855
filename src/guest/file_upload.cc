#include "guest/file_upload.h"

#include <algorithm>
#include <cctype>

#include "base/path_text.h"
#include "guest/file_io.h"
#include "guest/gzip.h"
#include "guest/multipart.h"

namespace space::guest {

namespace {

constexpr std::size_t piece_bytes = 64 * 1024;
constexpr std::size_t metadata_key_max = 246;  // an attribute's name has 255 bytes, "user.e2b." among them
constexpr std::size_t metadata_total_max = 3 * 1024;  // a file's attributes share one block

// The body of the request as its sender had it.
class PlainBody {
 public:
  PlainBody(http::Body& body, bool gzip) : body_(body) {
    if (!gzip) return;
    decompressor_.emplace();
    compressed_.resize(piece_bytes);
  }

  // 0 at the end.
  Task<Result<std::size_t>> read(std::span<std::byte> into) {
    if (!decompressor_) co_return co_await body_.read(into);
    while (true) {
      if (more_ || !unread_.empty()) {
        SPACE_CO_TRY(const auto done,
                     co_await run_blocking([&] { return decompressor_->decompress(unread_, into); }));
        unread_ = unread_.subspan(done.consumed);
        more_ = done.produced == into.size();
        if (done.produced > 0) co_return done.produced;
      }
      SPACE_CO_TRY(const std::size_t count, co_await body_.read(compressed_));
      unread_ = std::span(compressed_).first(count);
      if (count > 0) continue;
      if (decompressor_->complete()) co_return 0;
      co_return fail(Code::invalid_argument, "the gzip body ends too early");
    }
  }

 private:
  http::Body& body_;
  std::optional<Decompressor> decompressor_;
  Bytes compressed_;
  std::span<const std::byte> unread_;  // of compressed_
  bool more_ = false;                  // in the decompressor
};

Result<Fd> open_empty(const std::string& path, const UploadOptions& options) {
  SPACE_TRY(Fd file, open_to_write(path, options.user));
  SPACE_CHECK(replace_metadata(file.get(), options.metadata));
  return file;
}

// Writes the files of one request and remembers what the answer lists.
class Upload {
 public:
  explicit Upload(UploadOptions options) : options_(std::move(options)) {}
  const UploadOptions& options() const { return options_; }

  Task<Result<void>> open(std::string path) {
    SPACE_CO_TRY(path, resolve_path(path_of_text(path), options_.user, options_.default_workdir));
    if (std::ranges::find(paths_, path) != paths_.end())
      co_return fail(Code::invalid_argument, "path '{}' is uploaded twice", shown_path(path));
    SPACE_CO_TRY(file_, co_await run_blocking([&] { return open_empty(path, options_); }));
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
    for (const std::string& path : paths_) entries.push_back(written_file_json(path, options_.metadata));
    return to_text(entries);
  }

 private:
  Task<Result<void>> flush() {
    if (pending_.empty()) co_return Result<void>();
    auto written = co_await run_blocking([&] { return write_all(file_.get(), as_bytes(pending_)); });
    pending_.clear();
    co_return written;
  }

  UploadOptions options_;
  std::vector<std::string> paths_;
  Fd file_;
  std::string pending_;
};

Task<Result<void>> receive_raw(PlainBody& body, Upload& upload) {
  SPACE_CO_CHECK(co_await upload.open(upload.options().path));
  Bytes buffer(piece_bytes);
  while (true) {
    SPACE_CO_TRY(const std::size_t count, co_await body.read(buffer));
    if (count == 0) break;
    SPACE_CO_CHECK(co_await upload.write(as_text(std::span(buffer).first(count))));
  }
  co_return co_await upload.close();
}

// Parts not named "file" are ignored. The path of the request overrides the part's own.
Task<Result<void>> receive_part(MultipartReader::Event event, Upload& upload) {
  const std::string& path = upload.options().path;
  switch (event.kind) {
    case MultipartReader::Kind::part:
      if (event.name != "file") break;
      if (path.empty() && event.filename.empty())
        co_return fail(Code::invalid_argument, "a part named 'file' has no filename");
      co_return co_await upload.open(path.empty() ? std::move(event.filename) : path);
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

Task<Result<void>> receive_form(PlainBody& body, Upload& upload) {
  MultipartReader reader(*upload.options().boundary);
  Bytes buffer(piece_bytes);
  while (true) {
    SPACE_CO_TRY(auto event, reader.next());
    if (event && event->kind == MultipartReader::Kind::end) co_return Result<void>();
    if (event) {
      SPACE_CO_CHECK(co_await receive_part(*std::move(event), upload));
      continue;
    }
    SPACE_CO_TRY(const std::size_t count, co_await body.read(buffer));
    if (count == 0) co_return fail(Code::invalid_argument, "the multipart body ends too early");
    reader.feed(std::span(buffer).first(count));
  }
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
  return lower;
}

Result<Metadata> metadata_of(const http::Fields& fields) {
  constexpr std::string_view prefix = "x-metadata-";
  Metadata metadata;
  std::size_t total = 0;
  for (const auto& [name, value] : fields.all()) {
    const std::string lower = lower_case(name);
    if (!lower.starts_with(prefix) || lower.size() == prefix.size()) continue;
    std::string key = lower.substr(prefix.size());
    total += key.size() + value.size();
    if (key.size() > metadata_key_max)
      return fail(Code::invalid_argument, "a metadata key has at most {} characters", metadata_key_max);
    metadata[std::move(key)] = value;
  }
  if (total > metadata_total_max)
    return fail(Code::invalid_argument, "the metadata of a file has at most {} bytes", metadata_total_max);
  return metadata;
}

}  // namespace

JsonObject written_file_json(std::string_view path, const Metadata& metadata) {
  const std::string text = text_of_path(path);
  JsonObject file{{"path", text}, {"name", text.substr(text.rfind('/') + 1)}, {"type", "file"}};
  if (metadata.empty()) return file;
  JsonObject pairs;
  for (const auto& [key, value] : metadata) pairs[key] = value;
  file["metadata"] = std::move(pairs);
  return file;
}

Result<UploadOptions> read_upload_options(const http::RequestHead& head) {
  UploadOptions options;
  const std::string encoding = lower_case(head.fields.get("Content-Encoding").value_or("identity"));
  options.gzip = encoding == "gzip" || encoding == "x-gzip";
  if (!options.gzip && encoding != "identity" && !encoding.empty())
    return fail(Code::conflict, "content encoding '{}' is not supported, gzip is", encoding);
  options.path = http::query_value(head.query(), "path").value_or("");
  options.boundary = multipart_boundary(head.fields.get("Content-Type").value_or(""));
  if (!options.boundary && options.path.empty())
    return fail(Code::invalid_argument, "query parameter 'path' is missing");
  SPACE_TRY(options.metadata, metadata_of(head.fields));
  return options;
}

Task<Result<std::string>> receive_files(http::Body& body, UploadOptions options) {
  Upload upload(std::move(options));
  PlainBody plain(body, upload.options().gzip);
  SPACE_CO_CHECK(upload.options().boundary ? co_await receive_form(plain, upload)
                                           : co_await receive_raw(plain, upload));
  co_return upload.answer();
}

}  // namespace space::guest

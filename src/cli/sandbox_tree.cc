#include "cli/sandbox_tree.h"

#include "base/path_text.h"
#include "cli/process_client.h"

namespace space::cli {

namespace {

// Smaller ones are sent where they belong at once: sending them again costs less than asking.
constexpr std::uint64_t direct_max = 1024 * 1024;
constexpr std::size_t parts_max = 1000;
constexpr std::size_t argument_bytes_max = 64 * 1024;
constexpr Millis piece_patience{120'000};
constexpr Millis settle_pause{300};
constexpr int settle_looks = 20;
constexpr unsigned file_mode = 0644;  // the daemon's own
constexpr unsigned folder_mode = 0755;

// What is there of a transfer: each run adds a part, named by where it begins.
std::string part_path(const std::string& path, const std::string& key, std::uint64_t offset) {
  return join(folder_of(path), fmt::format("{}-{}", part_name(key), offset));
}

class Download final : public Reader {
 public:
  explicit Download(RemoteFiles::Download download) : download_(std::move(download)) {}
  std::optional<std::uint64_t> length() const override { return download_.length; }
  // Ends early: the connection says so.
  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    co_return co_await with_deadline(download_.connection->body().read(into), Deadline::after(piece_patience),
                                     "the next piece of the file");
  }

 private:
  RemoteFiles::Download download_;
};

class Upload final : public Writer {
 public:
  Upload(const RemoteFiles& files, std::unique_ptr<http::ClientConnection> connection, std::string path,
         WriteOptions options, bool direct)
      : files_(files),
        connection_(std::move(connection)),
        path_(std::move(path)),
        options_(std::move(options)),
        direct_(direct) {}

  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    auto written = co_await with_deadline(connection_->write_body(bytes), Deadline::after(piece_patience),
                                          "sending a piece of the file");
    if (written) co_return written;
    SPACE_CO_CHECK(co_await RemoteFiles::finish_upload(*connection_));  // why it did not want more
    co_return written;
  }

  Task<Result<void>> commit() override {
    if (connection_) SPACE_CO_CHECK(co_await RemoteFiles::finish_upload(*connection_));
    if (direct_) co_return Result<void>();
    SPACE_CO_CHECK(co_await put_in_place());
    SPACE_CO_TRY(const auto there, co_await files_.stat(path_));
    if (!there || (there->target.empty() && there->entry.size != options_.size))
      co_return fail(Code::internal, "{} has another size than what was sent: copy it again", path_);
    co_return Result<void>();
  }

 private:
  Task<Result<void>> put_in_place() {
    std::vector<std::string> parts;
    std::uint64_t offset = 0;
    while (offset < *options_.size && parts.size() <= parts_max) {
      const std::string part = part_path(path_, options_.part_key, offset);
      SPACE_CO_TRY(const auto there, co_await files_.stat(part));
      if (!there || there->entry.size == 0) co_return fail(Code::internal, "{} went away meanwhile", part);
      parts.push_back(part);
      offset += there->entry.size;
    }
    if (parts.size() == 1) co_return co_await files_.move(parts.front(), path_);
    co_return co_await files_.compose(std::move(parts), path_);
  }

  const RemoteFiles& files_;
  std::unique_ptr<http::ClientConnection> connection_;  // null: all was there
  std::string path_;
  WriteOptions options_;
  bool direct_;
};

// Arguments of programs are text; files whose names are not keep the mode they are made with.
bool is_text(const std::string& path) {
  return text_of_path(path) == path;
}

bool is_direct(const WriteOptions& options) {
  return options.offset == 0 && (!options.size || *options.size <= direct_max);
}

}  // namespace

std::string SandboxTree::describe(const std::string& path) const {
  return files_.target().sandbox_id + ":" + absolute(path);
}

Task<Result<std::optional<Entry>>> SandboxTree::stat(std::string path) {
  SPACE_CO_TRY(auto there, co_await files_.stat(absolute(path)));
  if (there && !there->target.empty() && path.empty()) {
    SPACE_CO_TRY(auto pointed, co_await files_.stat(there->target));
    if (pointed && pointed->target.empty()) there = std::move(pointed);
  }
  if (!there) co_return std::nullopt;
  if (path.empty() && there->path.starts_with('/')) root_ = there->path;
  co_return std::move(there->entry);
}

Task<Result<std::vector<Entry>>> SandboxTree::list(std::string path) {
  SPACE_CO_TRY(auto listed, co_await files_.list(absolute(path)));
  std::vector<Entry> entries;
  for (RemoteEntry& remote : listed) {
    if (remote.entry.kind == Entry::Kind::link)
      remote.entry.target = link_within(root_, absolute(path), remote.target);
    entries.push_back(std::move(remote.entry));
  }
  co_return entries;
}

Task<Result<std::unique_ptr<Reader>>> SandboxTree::read(std::string path, std::uint64_t offset) {
  SPACE_CO_TRY(auto download, co_await files_.download(absolute(path), offset));
  co_return std::make_unique<Download>(std::move(download));
}

Task<Result<bool>> SandboxTree::make_directory(std::string path) {
  co_return co_await files_.make_directory(absolute(path));
}

// The daemon may still be writing what was on its way when the connection broke: until it stands still.
Task<Result<std::uint64_t>> SandboxTree::partial(std::string path, std::string part_key) {
  SPACE_CO_TRY(std::uint64_t offset, co_await parts_end(path, part_key));
  for (int look = 0; offset > 0 && look < settle_looks; ++look) {
    co_await sleep_for(settle_pause);
    SPACE_CO_TRY(const std::uint64_t again, co_await parts_end(path, part_key));
    if (again == std::exchange(offset, again)) break;
  }
  co_return offset;
}

Task<Result<std::uint64_t>> SandboxTree::parts_end(std::string path, std::string part_key) {
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < parts_max; ++i) {
    SPACE_CO_TRY(const auto part, co_await files_.stat(part_path(absolute(path), part_key, offset)));
    if (!part || part->entry.kind != Entry::Kind::file || part->entry.size == 0) co_return offset;
    offset += part->entry.size;
  }
  co_return 0;  // too many pieces to be worth it
}

Task<Result<std::unique_ptr<Writer>>> SandboxTree::write(std::string path, WriteOptions options) {
  const bool direct = is_direct(options);
  const std::string whole = absolute(path);
  std::unique_ptr<http::ClientConnection> connection;
  if (direct || options.offset < *options.size) {
    const std::string place = direct ? whole : part_path(whole, options.part_key, options.offset);
    std::optional<std::uint64_t> size = options.size;
    if (size) *size -= options.offset;
    SPACE_CO_TRY(connection, co_await files_.upload(place, size));
  }
  co_return std::make_unique<Upload>(files_, std::move(connection), whole, std::move(options), direct);
}

// The daemon has no calls for links and modes; the guest has programs.
Task<Result<void>> SandboxTree::run(std::vector<std::string> argv) {
  const std::string name = argv.front();
  ProgramSpec spec{.argv = std::move(argv), .user = files_.user()};
  SPACE_CO_TRY(const int code, co_await run_quietly(files_.api(), files_.target(), std::move(spec)));
  if (code != 0)
    co_return fail(Code::internal, "the files are there, but {} failed in the sandbox ({})", name, code);
  co_return Result<void>();
}

Task<Result<void>> SandboxTree::make_link(std::string path, std::string target) {
  if (!is_text(path) || !is_text(target))
    co_return fail(Code::invalid_argument, "a link needs names of UTF-8 in a sandbox");
  std::vector<std::string> argv{"ln", "-sfn", "--", std::move(target), absolute(path)};
  co_return co_await run(std::move(argv));
}

unsigned SandboxTree::mode_of_new(const Entry& entry) const {
  return entry.kind == Entry::Kind::directory ? folder_mode : file_mode;
}

Task<Result<void>> SandboxTree::set_modes(std::map<unsigned, std::vector<std::string>> paths) {
  for (const auto& [mode, list] : paths) {
    constexpr std::size_t fixed = 3;  // chmod MODE --
    std::vector<std::string> argv;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (argv.empty()) argv = {"chmod", fmt::format("{:04o}", mode), "--"};
      if (is_text(list[i])) argv.push_back(absolute(list[i]));
      bytes += argv.back().size();
      if (bytes < argument_bytes_max && i + 1 < list.size()) continue;
      if (argv.size() > fixed) SPACE_CO_CHECK(co_await run(std::exchange(argv, {})));
      bytes = 0;
    }
  }
  co_return Result<void>();
}

}  // namespace space::cli

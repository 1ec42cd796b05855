#include "cli/copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace space::cli {

namespace {

constexpr std::size_t parallel_files = 4;
constexpr std::size_t piece_bytes = 256 * 1024;
// What a sandbox may claim to hold.
constexpr std::size_t entries_max = 1'000'000;
constexpr std::size_t depth_max = 200;

struct Item {
  std::string path;
  Entry entry;
};

// One copy under way; lives in copy_tree's frame until all its coroutines ended.
struct Copy {
  Copy(const Executor& executor, Tree& f, Tree& t, CopyOptions o, Progress& p)
      : from(f), to(t), options(o), progress(p), worker_ended(executor) {}
  Tree& from;
  Tree& to;
  CopyOptions options;
  Progress& progress;
  std::vector<Item> folders, files, links;
  std::map<unsigned, std::vector<std::string>> modes;
  CopyReport report;
  std::size_t next_file = 0;
  std::size_t workers = 0;
  std::optional<Error> failure;  // the first; ends the others
  Event worker_ended;
};

void sort_in(Copy& copy, Item item) {
  switch (item.entry.kind) {
    case Entry::Kind::file:
      copy.files.push_back(std::move(item));
      break;
    case Entry::Kind::directory:
      copy.folders.push_back(std::move(item));
      break;
    case Entry::Kind::link:
      if (!item.entry.target.empty()) {
        copy.links.push_back(std::move(item));
      } else {
        copy.report.left_out.push_back(copy.from.describe(item.path) + ": the link leads out of the folder");
      }
      break;
    case Entry::Kind::other:
      copy.report.left_out.push_back(copy.from.describe(item.path) + ": neither file, folder nor link");
      break;
  }
}

Task<Result<void>> survey(Copy& copy) {
  SPACE_CO_TRY(auto root, co_await copy.from.stat(""));
  if (!root) co_return fail(Code::not_found, "{} does not exist", copy.from.describe(""));
  sort_in(copy, {"", *std::move(root)});
  std::size_t entries = 0;
  for (std::size_t i = 0; i < copy.folders.size(); ++i) {
    const std::string folder = copy.folders[i].path;
    SPACE_CO_TRY(auto listed, co_await copy.from.list(folder));
    entries += listed.size();
    if (entries > entries_max || std::ranges::count(folder, '/') > static_cast<std::ptrdiff_t>(depth_max))
      co_return fail(Code::exhausted, "{} holds more than can be copied at once ({} entries, {} levels)",
                     copy.from.describe(""), entries_max, depth_max);
    for (Entry& entry : listed) {
      std::string path = join(folder, entry.name);
      sort_in(copy, {std::move(path), std::move(entry)});
    }
  }
  std::uint64_t bytes = 0;
  for (const Item& file : copy.files) bytes += file.entry.size;
  copy.progress.expect(bytes, copy.files.size());
  co_return Result<void>();
}

void remember_mode(Copy& copy, const Item& item) {
  if (item.entry.mode != copy.to.mode_of_new(item.entry)) copy.modes[item.entry.mode].push_back(item.path);
}

Task<Result<void>> make_folders(Copy& copy) {
  for (const Item& folder : copy.folders) {
    SPACE_CO_TRY(const bool made, co_await copy.to.make_directory(folder.path));
    if (made) remember_mode(copy, folder);
    ++copy.report.folders;
  }
  co_return Result<void>();
}

// The rule of `cp -u`, and the same size.
Task<Result<bool>> is_complete(Copy& copy, const Item& file) {
  SPACE_CO_TRY(const auto there, co_await copy.to.stat(file.path));
  co_return there && there->kind == Entry::Kind::file && there->size == file.entry.size &&
      there->modified_ns >= file.entry.modified_ns;
}

Task<Result<void>> pour(Copy& copy, Reader& reader, Writer& writer) {
  const auto piece = std::make_unique_for_overwrite<std::byte[]>(piece_bytes);
  while (!copy.failure) {
    SPACE_CO_TRY(const std::size_t n, co_await reader.read({piece.get(), piece_bytes}));
    if (n == 0) co_return co_await writer.commit();
    SPACE_CO_CHECK(co_await writer.write({piece.get(), n}));
    copy.report.bytes += n;
    copy.progress.advance(n);
  }
  co_return fail(Code::unavailable, "another file failed");
}

void keep(Copy& copy, std::uint64_t bytes) {
  copy.report.bytes += bytes;
  copy.report.kept_bytes += bytes;
  copy.progress.keep(bytes);
}

Task<Result<void>> copy_file(Copy& copy, const Item& file) {
  const Entry& entry = file.entry;
  WriteOptions write{.size = std::nullopt, .mode = entry.mode};
  if (entry.size > 0) write.size = entry.size;
  write.part_key = fmt::format("{}\n{}\n{}\n{}", copy.from.describe(file.path), entry.size, entry.modified_ns,
                               last_name(copy.to.describe(file.path)));
  if (copy.options.resume && write.size) {
    SPACE_CO_TRY(const bool complete, co_await is_complete(copy, file));
    if (complete) {
      keep(copy, entry.size);
      co_return Result<void>();
    }
    SPACE_CO_TRY(write.offset, co_await copy.to.partial(file.path, write.part_key));
    if (write.offset > entry.size) write.offset = 0;
  }
  const std::uint64_t offset = write.offset;
  if (write.size && offset == *write.size) {
    SPACE_CO_TRY(const auto writer, co_await copy.to.write(file.path, std::move(write)));
    keep(copy, offset);
    co_return co_await writer->commit();
  }
  SPACE_CO_TRY(const auto reader, co_await copy.from.read(file.path, offset));
  if (write.size && reader->length() != entry.size - offset)
    co_return fail(Code::conflict, "{} changed while it was copied: copy it again",
                   copy.from.describe(file.path));
  SPACE_CO_TRY(const auto writer, co_await copy.to.write(file.path, std::move(write)));
  keep(copy, offset);
  co_return co_await pour(copy, *reader, *writer);
}

Task<void> work(Copy& copy) {
  while (!copy.failure && copy.next_file < copy.files.size()) {
    const Item& file = copy.files[copy.next_file++];
    const auto copied = co_await copy_file(copy, file);
    if (copied) {
      remember_mode(copy, file);
      ++copy.report.files;
      copy.progress.file_done();
    } else if (!copy.failure) {
      copy.failure = wrap(copied.error(), copy.from.describe(file.path)).error();
    }
  }
  --copy.workers;
  copy.worker_ended.notify_all();
}

Task<Result<void>> copy_files(Copy& copy) {
  const Executor executor = co_await boost::asio::this_coro::executor;
  copy.workers = std::min(parallel_files, copy.files.size());
  for (std::size_t i = copy.workers; i > 0; --i) spawn(executor, "copy", work(copy));
  while (copy.workers > 0) co_await copy.worker_ended.wait();
  if (copy.failure) co_return std::unexpected(*copy.failure);
  co_return Result<void>();
}

}  // namespace

Task<Result<CopyReport>> copy_tree(Tree& from, Tree& to, CopyOptions options, Progress& progress) {
  Copy copy(co_await boost::asio::this_coro::executor, from, to, options, progress);
  SPACE_CO_CHECK(co_await survey(copy));
  SPACE_CO_CHECK(co_await make_folders(copy));
  SPACE_CO_CHECK(co_await copy_files(copy));
  SPACE_CO_CHECK(co_await to.stat(""));  // it exists now, and a sandbox says where
  for (const Item& link : copy.links) {
    const auto made = co_await to.make_link(link.path, link.entry.target);
    if (!made && made.error().code != Code::invalid_argument) co_return std::unexpected(made.error());
    if (!made) copy.report.left_out.push_back(from.describe(link.path) + ": " + made.error().message);
    if (made) ++copy.report.links;
  }
  SPACE_CO_CHECK(co_await to.set_modes(copy.modes));
  co_return std::move(copy.report);
}

}  // namespace space::cli

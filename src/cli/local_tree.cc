#include "cli/local_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

namespace space::cli {

namespace {

constexpr unsigned folder_mode = 0700;  // until all is in it

// No link below the root is followed and no `..` leads above it, whatever happens on disk meanwhile.
Result<Fd> open_beneath(int base, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<__u64>(flags | O_CLOEXEC);
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, base, path.c_str(), &how, sizeof how);
  if (fd < 0 && errno == ELOOP)
    return fail(Code::permission_denied, "a symbolic link is in the way; remove it or copy elsewhere");
  if (fd < 0) return fail_errno(errno, "open");
  return Fd(static_cast<int>(fd));
}

unsigned current_umask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

Entry entry_of(std::string name, const struct stat& info) {
  Entry entry;
  entry.name = std::move(name);
  entry.mode = info.st_mode & 0777U;
  entry.modified_ns = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
  if (S_ISREG(info.st_mode)) {
    entry.kind = Entry::Kind::file;
    entry.size = static_cast<std::uint64_t>(info.st_size);
  } else if (S_ISDIR(info.st_mode)) {
    entry.kind = Entry::Kind::directory;
  } else if (S_ISLNK(info.st_mode)) {
    entry.kind = Entry::Kind::link;
  }
  return entry;
}

class FileReader final : public Reader {
 public:
  FileReader(Fd file, std::optional<std::uint64_t> length) : file_(std::move(file)), left_(length) {}
  std::optional<std::uint64_t> length() const override { return left_; }
  Task<Result<std::size_t>> read(std::span<std::byte> into) override {
    if (left_) into = into.first(std::min<std::uint64_t>(into.size(), *left_));
    if (into.empty()) co_return 0U;
    const ssize_t n = ::read(file_.get(), into.data(), into.size());
    if (n < 0) co_return fail_errno(errno, "read");
    if (n == 0 && left_) co_return fail(Code::conflict, "the file became shorter while it was read");
    if (left_) *left_ -= static_cast<std::uint64_t>(n);
    co_return static_cast<std::size_t>(n);
  }

 private:
  Fd file_;
  std::optional<std::uint64_t> left_;
};

class FileWriter final : public Writer {
 public:
  FileWriter(Fd folder, std::string part, std::string name, Fd file, unsigned mode)
      : folder_(std::move(folder)),
        part_(std::move(part)),
        name_(std::move(name)),
        file_(std::move(file)),
        mode_(mode) {}
  Task<Result<void>> write(std::span<const std::byte> bytes) override {
    co_return write_all(file_.get(), bytes);
  }
  Task<Result<void>> commit() override {
    if (::fchmod(file_.get(), mode_ & ~current_umask()) != 0) co_return fail_errno(errno, "set mode");
    if (::renameat(folder_.get(), part_.c_str(), folder_.get(), name_.c_str()) != 0)
      co_return fail_errno(errno, "put in place");
    co_return Result<void>();
  }

 private:
  Fd folder_;
  std::string part_;
  std::string name_;
  Fd file_;
  unsigned mode_;
};

}  // namespace

Result<std::unique_ptr<LocalTree>> LocalTree::open(const std::string& path) {
  std::array<char, PATH_MAX> resolved;
  std::string real = path;
  if (::realpath(path.c_str(), resolved.data()) != nullptr) real = resolved.data();
  const std::string name = last_name(real);
  std::string folder = name.empty() ? real : folder_of(real);
  if (folder.empty()) folder = ".";
  Fd base(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base && errno == ENOENT)
    return fail(Code::not_found, "there is no folder {}: make it first (mkdir -p)", folder);
  if (!base) return fail_errno(errno, folder);
  return std::unique_ptr<LocalTree>(new LocalTree(std::move(base), name.empty() ? "." : name, path));
}

Result<Fd> LocalTree::open_below(const std::string& path, int flags) const {
  auto fd = open_beneath(base_.get(), join(name_, path), flags);
  if (!fd) return wrap(std::move(fd).error(), describe(path));
  return fd;
}

Result<LocalTree::Slot> LocalTree::slot(const std::string& path) const {
  const std::string whole = join(name_, path);
  const std::string folder = folder_of(whole);
  auto fd = open_beneath(base_.get(), folder.empty() ? "." : folder, O_PATH | O_DIRECTORY);
  if (!fd) return wrap(std::move(fd).error(), describe(folder_of(path)));
  return Slot{*std::move(fd), last_name(whole)};
}

Task<Result<std::optional<Entry>>> LocalTree::stat(std::string path) {
  struct stat info{};
  auto fd = open_below(path, O_PATH | O_NOFOLLOW);
  if (!fd && fd.error().code == Code::not_found) co_return std::nullopt;
  SPACE_CO_TRY(const Fd file, std::move(fd));
  if (::fstat(file.get(), &info) != 0) co_return fail_errno(errno, describe(path));
  co_return entry_of(last_name(join(name_, path)), info);
}

Task<Result<std::vector<Entry>>> LocalTree::list(std::string path) {
  SPACE_CO_TRY(Fd fd, open_below(path, O_RDONLY | O_DIRECTORY));
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::fdopendir(fd.release()), ::closedir);
  if (!folder) co_return fail_errno(errno, describe(path));
  std::vector<Entry> entries;
  while (const dirent* item = ::readdir(folder.get())) {
    const std::string name = item->d_name;
    struct stat info{};
    if (name == "." || name == "..") continue;
    if (::fstatat(::dirfd(folder.get()), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;  // gone
    entries.push_back(entry_of(name, info));
    std::array<char, PATH_MAX> target;
    const ssize_t n = entries.back().kind == Entry::Kind::link
                          ? ::readlinkat(::dirfd(folder.get()), name.c_str(), target.data(), target.size())
                          : 0;
    if (n > 0) entries.back().target.assign(target.data(), static_cast<std::size_t>(n));
  }
  std::ranges::sort(entries, {}, &Entry::name);
  co_return entries;
}

Task<Result<std::unique_ptr<Reader>>> LocalTree::read(std::string path, std::uint64_t offset) {
  // Non-blocking: a pipe that took the file's place is an error, not a wait.
  SPACE_CO_TRY(Fd file, open_below(path, O_RDONLY | O_NONBLOCK));
  struct stat info{};
  if (::fstat(file.get(), &info) != 0) co_return fail_errno(errno, describe(path));
  if (!S_ISREG(info.st_mode)) co_return fail(Code::invalid_argument, "{} is no regular file", describe(path));
  if (offset > 0 && ::lseek(file.get(), static_cast<off_t>(offset), SEEK_SET) < 0)
    co_return fail_errno(errno, describe(path));
  std::optional<std::uint64_t> length;
  if (info.st_size > 0) length = static_cast<std::uint64_t>(info.st_size) - offset;
  co_return std::make_unique<FileReader>(std::move(file), length);
}

Task<Result<bool>> LocalTree::make_directory(std::string path) {
  SPACE_CO_TRY(const Slot place, slot(path));
  if (::mkdirat(place.folder.get(), place.name.c_str(), folder_mode) == 0) co_return true;
  if (errno != EEXIST) co_return fail_errno(errno, describe(path));
  SPACE_CO_CHECK(open_below(path, O_PATH | O_DIRECTORY));
  co_return false;
}

Task<Result<void>> LocalTree::make_link(std::string path, std::string target) {
  SPACE_CO_TRY(const Slot place, slot(path));
  struct stat info{};
  if (::fstatat(place.folder.get(), place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISLNK(info.st_mode))
    ::unlinkat(place.folder.get(), place.name.c_str(), 0);
  if (::symlinkat(target.c_str(), place.folder.get(), place.name.c_str()) != 0)
    co_return fail_errno(errno, describe(path));
  co_return Result<void>();
}

Task<Result<std::uint64_t>> LocalTree::partial(std::string path, std::string part_key) {
  SPACE_CO_TRY(const Slot place, slot(path));
  struct stat info{};
  if (::fstatat(place.folder.get(), part_name(part_key).c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISREG(info.st_mode))
    co_return 0U;
  co_return static_cast<std::uint64_t>(info.st_size);
}

Task<Result<std::unique_ptr<Writer>>> LocalTree::write(std::string path, WriteOptions options) {
  SPACE_CO_TRY(Slot place, slot(path));
  const std::string part = part_name(options.part_key);
  const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (options.offset == 0 ? O_TRUNC : 0);
  Fd file(::openat(place.folder.get(), part.c_str(), flags, 0600));
  if (!file) co_return fail_errno(errno, describe(path));
  if (::ftruncate(file.get(), static_cast<off_t>(options.offset)) != 0 ||
      ::lseek(file.get(), 0, SEEK_END) < 0)
    co_return fail_errno(errno, describe(path));
  co_return std::make_unique<FileWriter>(std::move(place.folder), part, std::move(place.name),
                                         std::move(file), options.mode);
}

unsigned LocalTree::mode_of_new(const Entry& entry) const {
  return entry.kind == Entry::Kind::directory ? folder_mode : entry.mode;  // a file gets it as it appears
}

Task<Result<void>> LocalTree::set_modes(std::map<unsigned, std::vector<std::string>> paths) {
  const unsigned mask = current_umask();
  for (const auto& [mode, list] : paths) {
    for (const std::string& path : list) {
      SPACE_CO_TRY(const Fd file, open_below(path, O_RDONLY | O_NONBLOCK));
      if (::fchmod(file.get(), mode & ~mask) != 0) co_return fail_errno(errno, describe(path));
    }
  }
  co_return Result<void>();
}

}  // namespace space::cli

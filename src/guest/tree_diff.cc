#include "guest/tree_diff.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "base/fd.h"
#include "base/path_text.h"

namespace space::guest {

namespace {

constexpr std::size_t path_bytes_max = 4096;
constexpr std::size_t chunk_bytes = 128 * 1024;

bool same_time(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool is_folder(const std::optional<struct stat>& status) {
  return status && S_ISDIR(status->st_mode);
}

std::size_t json_bytes(std::string_view text) {
  std::size_t bytes = 80;  // of the other members
  for (const unsigned char c : text) bytes += c < 0x20 || c == '"' || c == '\\' ? 6 : 1;
  return bytes;
}

// Less than a chunk at the end; nullopt: it cannot be read.
std::optional<std::size_t> read_chunk(int fd, char* into) {
  std::size_t got = 0;
  while (got < chunk_bytes) {
    const ssize_t n = ::read(fd, into + got, chunk_bytes - got);
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

// One of the two folders that are compared; none where only the other has one of that name.
struct Side {
  int folder = -1;
  dev_t device = 0;

  std::optional<struct stat> look(const std::string& name) const {
    struct stat status{};
    if (folder < 0 || ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
    return status;
  }
  Fd open(const std::string& name, int flags) const {
    return Fd(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags));
  }
};

class Walk {
 public:
  explicit Walk(const TreeDiffLimits& limits)
      : limits_(limits),
        buffers_{std::make_unique<char[]>(chunk_bytes), std::make_unique<char[]>(chunk_bytes)} {}

  void compare(const Side& from, const Side& to, int depth);
  TreeDiff take() { return std::move(result_); }

 private:
  bool stop() {
    if (limits_.until.passed()) cut();
    return over_;
  }
  void cut() { over_ = result_.truncated = true; }
  void list(const Side& side, std::vector<std::string>& names);
  void compare_entry(const Side& from, const Side& to, const std::string& name, int depth);
  void descend(const Side& from, const Side& to, const std::string& name, int depth);
  void note(TreeChange::Kind kind, const struct stat& status);
  bool differ(const Side& from, const Side& to, const std::string& name, const struct stat& a,
              const struct stat& b);
  bool links_differ(const Side& from, const Side& to, const std::string& name);
  bool contents_differ(const Side& from, const Side& to, const std::string& name);

  const TreeDiffLimits& limits_;
  std::array<std::unique_ptr<char[]>, 2> buffers_;
  TreeDiff result_;
  std::string path_;
  std::size_t entries_ = 0, text_bytes_ = 0;
  bool over_ = false;
};

void Walk::list(const Side& side, std::vector<std::string>& names) {
  if (side.folder < 0) return;
  Fd own = side.open(".", O_DIRECTORY);
  DIR* const folder = own ? ::fdopendir(own.get()) : nullptr;
  if (folder == nullptr) {
    result_.truncated = true;
    return;
  }
  (void)own.release();
  while (const dirent* entry = ::readdir(folder)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (++entries_ > limits_.entries) cut();
    if (stop()) break;
    names.emplace_back(name);
  }
  ::closedir(folder);
}

void Walk::compare(const Side& from, const Side& to, int depth) {
  std::vector<std::string> names;
  list(from, names);
  list(to, names);
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  for (const std::string& name : names) {
    if (stop()) return;
    const std::size_t length = path_.size();
    path_ += '/' + name;
    if (path_.size() <= path_bytes_max)
      compare_entry(from, to, name, depth);
    else
      result_.truncated = true;
    path_.resize(length);
  }
}

void Walk::compare_entry(const Side& from, const Side& to, const std::string& name, int depth) {
  const auto a = from.look(name);
  const auto b = to.look(name);
  if (!a && !b) return;
  if (!a)
    note(TreeChange::Kind::added, *b);
  else if (!b)
    note(TreeChange::Kind::removed, *a);
  else if (differ(from, to, name, *a, *b))
    note(TreeChange::Kind::changed, *b);
  const bool down_from = is_folder(a) && a->st_dev == from.device;
  const bool down_to = is_folder(b) && b->st_dev == to.device;
  if (down_from || down_to) descend(down_from ? from : Side{}, down_to ? to : Side{}, name, depth);
}

void Walk::descend(const Side& from, const Side& to, const std::string& name, int depth) {
  if (depth >= limits_.depth) {
    result_.truncated = true;
    return;
  }
  const Fd a = from.folder < 0 ? Fd() : from.open(name, O_DIRECTORY);
  const Fd b = to.folder < 0 ? Fd() : to.open(name, O_DIRECTORY);
  // Without the one side all of the other would look new.
  if ((from.folder >= 0 && !a) || (to.folder >= 0 && !b)) {
    result_.truncated = true;
    return;
  }
  compare({a.get(), from.device}, {b.get(), to.device}, depth + 1);
}

void Walk::note(TreeChange::Kind kind, const struct stat& status) {
  if (over_) return;  // the time was up while it was compared
  TreeChange change{.kind = kind, .path = text_of_path(path_), .type = status.st_mode & S_IFMT};
  if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) change.size = status.st_size;
  text_bytes_ += json_bytes(change.path);
  if (result_.changes.size() >= limits_.changes || text_bytes_ > limits_.text_bytes) return cut();
  result_.changes.push_back(std::move(change));
}

bool Walk::differ(const Side& from, const Side& to, const std::string& name, const struct stat& a,
                  const struct stat& b) {
  if (a.st_mode != b.st_mode || a.st_uid != b.st_uid || a.st_gid != b.st_gid) return true;
  if (S_ISCHR(a.st_mode) || S_ISBLK(a.st_mode)) return a.st_rdev != b.st_rdev;
  if (!S_ISREG(a.st_mode) && !S_ISLNK(a.st_mode)) return false;
  if (a.st_size != b.st_size) return true;
  if (a.st_ino == b.st_ino && same_time(a.st_ctim, b.st_ctim) && same_time(a.st_mtim, b.st_mtim))
    return false;
  return S_ISLNK(a.st_mode) ? links_differ(from, to, name) : contents_differ(from, to, name);
}

bool Walk::links_differ(const Side& from, const Side& to, const std::string& name) {
  const auto target = [&](const Side& side, char* into) {
    return ::readlinkat(side.folder, name.c_str(), into, chunk_bytes);
  };
  char* const a = buffers_[0].get();
  char* const b = buffers_[1].get();
  const ssize_t length = target(from, a);
  return length < 0 || target(to, b) != length || std::memcmp(a, b, static_cast<std::size_t>(length)) != 0;
}

bool Walk::contents_differ(const Side& from, const Side& to, const std::string& name) {
  const Fd a = from.open(name, 0);
  const Fd b = to.open(name, 0);
  if (!a || !b) return true;
  while (!stop()) {
    const auto length = read_chunk(a.get(), buffers_[0].get());
    if (!length || read_chunk(b.get(), buffers_[1].get()) != length) return true;
    if (std::memcmp(buffers_[0].get(), buffers_[1].get(), *length) != 0) return true;
    if (*length < chunk_bytes) return false;
  }
  return false;
}

dev_t device_of(int folder) {
  struct stat status{};
  return ::fstat(folder, &status) == 0 ? status.st_dev : 0;
}

}  // namespace

TreeDiff diff_trees(int from_folder, int to_folder, const TreeDiffLimits& limits) {
  Walk walk(limits);
  walk.compare({from_folder, device_of(from_folder)}, {to_folder, device_of(to_folder)}, 0);
  return walk.take();
}

std::string_view type_name(std::uint32_t type) {
  switch (type) {
    case S_IFREG:
      return "file";
    case S_IFDIR:
      return "directory";
    case S_IFLNK:
      return "symlink";
    case S_IFIFO:
      return "fifo";
    case S_IFSOCK:
      return "socket";
    default:
      return "device";
  }
}

}  // namespace space::guest

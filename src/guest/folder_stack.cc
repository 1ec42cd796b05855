#include "guest/folder_stack.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace space::guest {

namespace {

constexpr std::size_t open_levels = 64;
constexpr std::size_t batch_bytes = 32 * 1024;

}  // namespace

Result<std::vector<FolderItem>> read_folder(int folder, std::size_t limit) {
  std::vector<FolderItem> items;
  alignas(dirent64) std::array<char, batch_bytes> buffer;
  if (::lseek(folder, 0, SEEK_SET) < 0) return fail_errno(errno, "read the folder");
  for (;;) {
    const ssize_t size = ::getdents64(folder, buffer.data(), buffer.size());
    if (size < 0 && errno == ENOENT) return items;  // removed while it is open
    if (size < 0) return fail_errno(errno, "read the folder");
    if (size == 0) return items;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      const char* record = buffer.data() + at;
      const auto* item = reinterpret_cast<const dirent64*>(record);
      at += item->d_reclen;
      const std::string_view name = record + offsetof(dirent64, d_name);
      if (name == "." || name == "..") continue;
      if (items.size() == limit) return fail(Code::exhausted, "a folder holds more than {} files", limit);
      items.push_back({.name = std::string(name), .type = item->d_type});
    }
  }
}

Result<FolderStack::Level> FolderStack::open_level(int parent, const char* name) {
  Level level;
  level.fd.reset(::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!level.fd || ::fstat(level.fd.get(), &status) != 0) return fail_errno(errno, "open a folder");
  level.device = status.st_dev;
  level.inode = status.st_ino;
  return level;
}

Result<FolderStack> FolderStack::open(int folder) {
  FolderStack stack;
  SPACE_TRY(auto level, open_level(folder, "."));
  stack.levels_.push_back(std::move(level));
  return stack;
}

Result<bool> FolderStack::enter(const std::string& name) {
  auto level = open_level(fd(), name.c_str());
  const bool absent = !level && (level.error().code == Code::not_found ||        // ENOENT
                                 level.error().code == Code::invalid_argument);  // ENOTDIR; of a link too
  if (absent) return false;
  if (!level) return std::unexpected(std::move(level).error());
  levels_.push_back(*std::move(level));
  if (depth() > open_levels) levels_[depth() - 1 - open_levels].fd.reset();
  return true;
}

Result<void> FolderStack::leave() {
  Level& above = levels_[depth() - 2];
  if (!above.fd) {
    SPACE_TRY(auto reopened, open_level(fd(), ".."));
    if (reopened.device != above.device || reopened.inode != above.inode)
      return fail(Code::conflict, "a folder was moved while it was walked through");
    above.fd = std::move(reopened.fd);
  }
  levels_.pop_back();
  return {};
}

}  // namespace space::guest

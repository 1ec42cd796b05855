#include "priv/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string_view>

#include "base/bytes.h"

namespace space::priv {
namespace {

Result<std::vector<std::string>> entries(Fd folder) {
  struct CloseDir {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  const std::unique_ptr<DIR, CloseDir> dir(::fdopendir(folder.get()));
  if (!dir) return fail_errno(errno, "list a folder");
  folder.release();
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return fail_errno(errno, "list a folder");
  return names;
}

// A second open: reading a folder moves the offset that copies of the descriptor share.
Result<std::vector<std::string>> entries_of(int folder) {
  SPACE_TRY(Fd again, open_beneath(folder, ".", O_RDONLY | O_DIRECTORY));
  return entries(std::move(again));
}

}  // namespace

Result<void> make_folder(const std::string& path, unsigned mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return fail_errno(errno, "make folder " + path);
  SPACE_TRY(Fd folder, open_fd(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  if (::fchown(folder.get(), 0, 0) != 0 || ::fchmod(folder.get(), mode) != 0)
    return fail_errno(errno, "set the mode of " + path);
  return {};
}

Result<std::vector<std::string>> names_in(const std::string& path) {
  SPACE_TRY(Fd folder, open_fd(path, O_RDONLY | O_DIRECTORY));
  return names_in(folder.get());
}

Result<std::vector<std::string>> names_in(int folder) {
  SPACE_TRY(auto names, entries_of(folder));
  std::erase_if(names, [](const std::string& name) { return name.starts_with('.'); });
  return names;
}

Result<std::vector<std::string>> half_made_in(int folder) {
  SPACE_TRY(auto names, entries_of(folder));
  std::erase_if(names, [](const std::string& name) { return !name.starts_with('.'); });
  return names;
}

Result<std::string> read_note(int folder, const char* name) {
  constexpr std::size_t bytes_max = 256;
  SPACE_TRY(const Fd file, open_beneath(folder, name, O_RDONLY));
  std::string text(bytes_max, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return fail_errno(errno, fmt::format("read {}", name));
  text.resize(static_cast<std::size_t>(got));
  return text;
}

Result<void> write_note(int folder, const char* name, const std::string& text) {
  SPACE_TRY(const Fd file, open_beneath(folder, name, O_WRONLY | O_CREAT | O_TRUNC, 0600));
  return write_all(file.get(), as_bytes(text));
}

Result<Fd> open_beneath(int folder, const std::string& path, int flags, unsigned mode) {
  open_how how{};
  how.flags = static_cast<unsigned>(flags) | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const long fd = ::syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how);
  if (fd < 0) return fail_errno(errno, "open " + path);
  return Fd(static_cast<int>(fd));
}

}  // namespace space::priv

#include "guest/modules.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/fd.h"

namespace space::guest {

Result<void> load_modules(const std::string& folder) {
  std::vector<std::string> names;
  {
    const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(folder.c_str()), ::closedir);
    if (!handle) return fail_errno(errno, fmt::format("open {}", folder));
    while (const dirent* entry = ::readdir(handle.get()))
      if (std::string_view(entry->d_name).ends_with(".ko")) names.emplace_back(entry->d_name);
  }
  std::ranges::sort(names);
  for (const std::string& name : names) {
    SPACE_TRY(const Fd file, open_fd(folder + "/" + name, O_RDONLY | O_CLOEXEC));
    if (::syscall(SYS_finit_module, file.get(), "", 0) != 0 && errno != EEXIST)
      return fail_errno(errno, fmt::format("load {}", name));
  }
  return {};
}

}  // namespace space::guest

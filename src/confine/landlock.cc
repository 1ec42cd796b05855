#include "confine/landlock.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace space::confine {
namespace {

// Of <linux/landlock.h> as of Linux 6.12; Debian 12's headers stop at ABI 2.
struct RulesetAttributes {
  std::uint64_t handled_files;
  std::uint64_t handled_net;  // ABI 4
  std::uint64_t scoped;       // ABI 6
};
struct [[gnu::packed]] PathBeneath {
  std::uint64_t allowed;
  std::int32_t parent;
};
constexpr std::uint32_t version_flag = 1;
constexpr int rule_path_beneath = 1;

constexpr std::uint64_t bit(unsigned number) {
  return std::uint64_t{1} << number;
}
constexpr std::uint64_t files_execute = bit(0), files_write = bit(1), files_read = bit(2),
                        files_list = bit(3);
constexpr std::uint64_t files_all_of_abi_1 = bit(13) - 1;
constexpr std::uint64_t files_refer = bit(13), files_truncate = bit(14), files_ioctl_device = bit(15);
constexpr std::uint64_t net_all = bit(0) | bit(1), scopes_all = bit(0) | bit(1);
// What makes sense on a file; the rest is about folders and refused with a file.
constexpr std::uint64_t of_files =
    files_execute | files_write | files_read | files_truncate | files_ioctl_device;

std::uint64_t handled_by(int abi) {
  std::uint64_t handled = files_all_of_abi_1;
  if (abi >= 2) handled |= files_refer;
  if (abi >= 3) handled |= files_truncate;
  if (abi >= 5) handled |= files_ioctl_device;
  return handled;
}

std::uint64_t granted_by(Reach reach) {
  switch (reach) {
    case Reach::read:
      return files_read | files_list;
    case Reach::execute:
      return files_read | files_list | files_execute;
    case Reach::write:
      return ~files_execute;
  }
  return 0;
}

Result<void> add_rule(int ruleset, const LandlockRule& rule, std::uint64_t handled) {
  Fd path;
  if (rule.fd < 0) {
    SPACE_TRY(path, open_fd(rule.path, O_PATH));
  }
  const int fd = path ? path.get() : rule.fd;
  struct stat status{};
  if (::fstat(fd, &status) != 0) return fail_errno(errno, rule.path);
  PathBeneath beneath{granted_by(rule.reach) & handled, fd};
  if (!S_ISDIR(status.st_mode)) beneath.allowed &= of_files;
  if (::syscall(SYS_landlock_add_rule, ruleset, rule_path_beneath, &beneath, 0) != 0)
    return fail_errno(errno, "landlock: rule for " + rule.path);
  return {};
}

}  // namespace

int landlock_abi() {
  const long abi = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, version_flag);
  return abi < 0 ? 0 : static_cast<int>(abi);
}

Result<void> restrict_by_landlock(const LandlockLimits& limits) {
  const int abi = landlock_abi();
  if (abi == 0)
    return fail(Code::unavailable, "this kernel has no Landlock, or it is not among lsm= at boot");
  RulesetAttributes attributes{.handled_files = handled_by(abi), .handled_net = 0, .scoped = 0};
  if (abi >= 4 && limits.forbid_tcp) attributes.handled_net = net_all;
  if (abi >= 6 && limits.forbid_signals) attributes.scoped = scopes_all;
  const std::size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  const Fd ruleset(static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0)));
  if (!ruleset) return fail_errno(errno, "landlock: make a ruleset");
  for (const LandlockRule& rule : limits.rules)
    SPACE_CHECK(add_rule(ruleset.get(), rule, attributes.handled_files));
  if (::syscall(SYS_landlock_restrict_self, ruleset.get(), 0) != 0) return fail_errno(errno, "landlock");
  return {};
}

}  // namespace space::confine

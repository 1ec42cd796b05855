#include "guest/host_keys.h"

#include <unistd.h>

#include <array>

#include "guest/detached_work.h"

namespace space::guest {

namespace {

constexpr Millis keys_time{8'000};  // the large kind takes long where instructions are emulated
constexpr Millis folder_time{1'000};
constexpr std::array<std::string_view, 3> kinds{"ed25519", "ecdsa", "rsa"};  // the quick ones first

std::string key_path(const std::string& folder, std::string_view kind) {
  return fmt::format("{}/ssh_host_{}_key", folder, kind);
}

// The kinds to make. Where there are none the slow one is not begun with.
std::vector<std::string> remove_keys(const std::string& folder, const std::string& server) {
  std::vector<std::string> found;
  for (const std::string_view kind : kinds) {
    const std::string path = key_path(folder, kind);
    if (::access(path.c_str(), F_OK) == 0) found.emplace_back(kind);
    ::unlink(path.c_str());
    ::unlink((path + ".pub").c_str());
  }
  if (found.empty() && ::access(server.c_str(), X_OK) == 0) found.assign(kinds.begin(), kinds.begin() + 2);
  return found;
}

}  // namespace

Task<Result<void>> renew_host_keys(HookSurroundings around, std::string folder, std::string server) {
  const Deadline deadline = Deadline::after(keys_time);
  const auto wanted = co_await detached_work([folder, server] { return remove_keys(folder, server); },
                                             deadline.at_most(folder_time));
  if (!wanted) co_return fail(Code::deadline, "the folder of the ssh host keys does not answer");
  for (const std::string& kind : *wanted) {
    const HelperEnd end = co_await run_helper(
        around.table,
        {.command = "ssh-keygen",
         .arguments = {"-q", "-t", kind, "-N", "", "-f", key_path(folder, kind)},
         .environment = {},
         .user = around.user,
         .context = {.path = around.path,
                     .environment = {},
                     .default_workdir = "/",
                     .cgroup_fd = around.cgroups != nullptr ? around.cgroups->hooks_folder() : -1,
                     .reset_oom_score = around.reset_oom_score},
         .time_max = deadline.left()});
    if (!end.succeeded) co_return fail(Code::internal, "no ssh host key of kind {}: {}", kind, end.status);
  }
  co_return Result<void>();
}

}  // namespace space::guest

#include "guest/hooks.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>

#include "base/log.h"
#include "base/path_text.h"
#include "guest/detached_work.h"

namespace space::guest {

namespace {

constexpr std::size_t entries_max = 1024;  // looked at

bool others_may_write(const struct stat& status, uid_t owner) {
  return status.st_uid != owner || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

bool is_hook_name(std::string_view name) {
  return !name.empty() && name.front() != '.' && name.back() != '~';
}

HelperProgram program_of(const HookSurroundings& around, const std::string& path, std::uint64_t generation,
                         Millis time_max) {
  return {.command = path,
          .arguments = {},
          .environment = {{"SPACE_GENERATION", std::to_string(generation)}},
          .user = around.user,
          .context = {.path = around.path,
                      .environment = {},
                      .default_workdir = "/",
                      .cgroup_fd = around.cgroups != nullptr ? around.cgroups->hooks_folder() : -1,
                      .reset_oom_score = around.reset_oom_score},
          .time_max = time_max};
}

void settle(const HookSurroundings& around, bool timed_out) {
  if (around.cgroups == nullptr) return;
  if (timed_out) (void)around.cgroups->kill_hooks();
  if (const auto adopted = around.cgroups->adopt_left_of_hooks(); !adopted)
    log::warn("what a hook left is not with the users' programs", {log::Field(adopted.error())});
}

}  // namespace

std::vector<Hook> list_hooks(const std::string& folder, uid_t owner) {
  std::vector<Hook> hooks;
  const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(folder.c_str()), ::closedir);
  if (!handle) return hooks;
  struct stat status{};
  const bool open_folder = ::fstat(::dirfd(handle.get()), &status) != 0 || others_may_write(status, owner);
  std::size_t looked_at = 0;
  while (const dirent* entry = ::readdir(handle.get())) {
    if (++looked_at > entries_max) break;
    if (!is_hook_name(entry->d_name)) continue;
    if (::fstatat(::dirfd(handle.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(status.st_mode) || (status.st_mode & S_IXUSR) == 0) continue;
    Hook hook{.name = entry->d_name, .refusal = ""};
    if (open_folder) {
      hook.refusal = "refused: others than root may write its folder";
    } else if (others_may_write(status, owner)) {
      hook.refusal = "refused: others than root may write it";
    }
    hooks.push_back(std::move(hook));
  }
  std::ranges::sort(hooks, {}, &Hook::name);
  if (hooks.size() > hooks_max) hooks.resize(hooks_max);
  return hooks;
}

Task<std::vector<HookResult>> run_hooks(HookSurroundings around, std::string folder,
                                        std::uint64_t generation) {
  const Deadline deadline = Deadline::after(hooks_time);
  const uid_t owner = around.user.uid;
  std::vector<HookResult> results;
  const auto hooks = co_await detached_work([folder, owner] { return list_hooks(folder, owner); },
                                            deadline.at_most(hook_time));
  if (!hooks) {
    results.push_back({folder, "its file system does not answer"});
    co_return results;
  }
  for (const Hook& hook : *hooks) {
    if (!hook.refusal.empty()) {
      results.push_back({hook.name, hook.refusal});
      continue;
    }
    if (deadline.passed()) {
      results.push_back({hook.name, "not run: the time of all hooks is over"});
      continue;
    }
    const HelperEnd end = co_await run_helper(
        around.table,
        program_of(around, folder + "/" + hook.name, generation, std::min(hook_time, deadline.left())));
    settle(around, end.timed_out);
    if (!end.succeeded) log::warn("a hook failed", {{"hook", shown_path(hook.name)}, {"status", end.status}});
    results.push_back({hook.name, end.status});
  }
  co_return results;
}

}  // namespace space::guest

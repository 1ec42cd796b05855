// Hooks: programs of the template's or sandbox's owner that run after every restore, in the order of their
// names, while everything else in the guest still stands still.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "guest/cgroup.h"
#include "guest/helper_program.h"

namespace space::guest {

inline constexpr const char* hooks_folder = "/etc/space/post-restore.d";
inline constexpr std::size_t hooks_max = 32;
inline constexpr Millis hook_time{2'000};
inline constexpr Millis hooks_time{10'000};  // of all together

struct Hook {
  std::string name;
  std::string refusal;  // why it may not run; empty: it may
};
struct HookResult {
  std::string name;  // bytes, as the folder has them
  std::string status;
};

// The executable files of `folder`, sorted, at most hooks_max. Refused are those that somebody but `owner`
// may write, or whose folder is such; names with a leading dot or a trailing '~', links and what is not
// executable are passed over. A missing folder holds none. Blocks.
std::vector<Hook> list_hooks(const std::string& folder, uid_t owner = 0);

struct HookSurroundings {
  ProcessTable& table;
  Cgroups* cgroups = nullptr;  // nullptr: they run where the daemon does
  std::string path;            // PATH
  bool reset_oom_score = false;
  User user = superuser();
};
// Runs them one after the other; a failure stops nothing. What they leave running joins the user cgroup.
Task<std::vector<HookResult>> run_hooks(HookSurroundings around, std::string folder,
                                        std::uint64_t generation);

}  // namespace space::guest

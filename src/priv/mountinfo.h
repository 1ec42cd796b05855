// /proc/self/mountinfo, parsed. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace space::priv {

struct Mount {
  std::string point;          // where it is mounted, unescaped
  std::string type;           // "btrfs", "cgroup2", …
  std::string source;         // "/dev/loop0"
  std::string options;        // of the file system: "rw,memory"
  std::string mount_options;  // of this mount of it: "ro,nosuid"
};

// Lines that are not as the kernel writes them are left out.
std::vector<Mount> parse_mountinfo(std::string_view text);
Result<std::vector<Mount>> mounts_of_this_process();
// The one on top when several share the point; nullptr when none.
const Mount* mounted_at(const std::vector<Mount>& mounts, std::string_view point);
// "a,b,c" has "b".
bool has_option(std::string_view options, std::string_view name);

}  // namespace space::priv

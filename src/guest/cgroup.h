// The cgroups (v2) of a guest: `daemon` for the daemon, `user` for everything clients start, which can be
// frozen as a whole before a snapshot, and `hooks` for what the daemon runs while that one is frozen.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/fd.h"
#include "net/task.h"

namespace space::guest {

class Cgroups {
 public:
  // Makes them below `root` (a mounted cgroup2 hierarchy or a folder of one) and moves the daemon into its
  // own.
  static Result<Cgroups> create(const std::string& root);

  int user_folder() const { return user_.get(); }
  int hooks_folder() const { return hooks_.get(); }
  // Whatever a hook left running belongs to the users' programs, and is frozen with them.
  Result<void> adopt_left_of_hooks();
  Result<void> kill_hooks();
  // Completes when the kernel says that all of the user cgroup stands still. Code::conflict when `overtaken`
  // says so meanwhile: whoever did it has decided whether the cgroup runs.
  Task<Result<void>> freeze(Deadline deadline, std::function<bool()> overtaken);
  Result<void> thaw();
  // Of the user cgroup, since boot.
  Result<std::uint64_t> cpu_used_us() const;
  Result<std::uint64_t> tasks() const;  // threads of the user cgroup
  Result<bool> populated() const;

 private:
  Fd user_;
  Fd hooks_;
};

// Value of `key` in a cgroup's or procfs's "key value" lines; nullopt if it is not there. Pure.
std::optional<std::uint64_t> keyed_number(std::string_view text, std::string_view key);

}  // namespace space::guest

// The two cgroups (v2) of a guest: `daemon` for the daemon, `user` for everything clients start, which can be
// frozen as a whole before a snapshot.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "net/task.h"

namespace space::guest {

class Cgroups {
 public:
  // Makes both below `root` (a mounted cgroup2 hierarchy or a folder of one) and moves the daemon into its
  // own.
  static Result<Cgroups> create(const std::string& root);

  int user_folder() const { return user_.get(); }
  // Completes when the kernel says that all of the user cgroup stands still.
  Task<Result<void>> freeze(Deadline deadline);
  Result<void> thaw();
  // Of the user cgroup, since boot.
  Result<std::uint64_t> cpu_used_us() const;
  Result<std::uint64_t> tasks() const;  // threads of the user cgroup
  Result<bool> populated() const;

 private:
  Fd user_;
};

// Value of `key` in a cgroup's or procfs's "key value" lines; nullopt if it is not there. Pure.
std::optional<std::uint64_t> keyed_number(std::string_view text, std::string_view key);

}  // namespace space::guest

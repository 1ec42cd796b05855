// What control calls need of the daemon around them.
#pragma once

#include <unistd.h>

#include <functional>

#include "guest/cgroup.h"
#include "guest/clock_entropy.h"
#include "guest/disk_freezer.h"
#include "guest/hooks.h"
#include "net/stream.h"

namespace space::guest {

inline bool flush_file_systems() {
  ::sync();
  return true;
}

struct ControlSurroundings {
  Cgroups* cgroups = nullptr;   // nullptr: nothing can be frozen
  DiskFreezer* disk = nullptr;  // nullptr: no disk of the machine's
  std::function<std::size_t()> open_tunnels;
  std::function<void(bool reboot)> shut_down;          // returns at once
  std::function<Task<void>(StreamPtr)> serve_clients;  // one connection of the daemon's HTTP API
  std::function<Result<std::int64_t>(std::int64_t)> set_wall_clock = guest::set_wall_clock;
  std::function<Result<void>(std::span<const std::byte>)> add_entropy = guest::add_entropy;
  std::function<bool()> flush = flush_file_systems;           // blocks
  std::function<void()> settings_changed = [] {};             // returns at once
  std::function<Task<Result<void>>(Deadline)> save_settings;  // what has changed; may be none
  std::function<Task<void>(Deadline)> hang_up;                // the channel, before the daemon is replaced
  std::function<void()> go_on;                                // with it, because it was not
  std::vector<std::string> arguments;                         // argv of a daemon that takes this one's place
  std::string hooks_folder = guest::hooks_folder;
};

}  // namespace space::guest

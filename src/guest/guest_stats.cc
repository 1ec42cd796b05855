#include "guest/guest_stats.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "base/fd.h"
#include "guest/cgroup.h"

namespace space::guest {

std::uint64_t busy_time_us(std::string_view proc_stat, long ticks_per_second) {
  std::string_view line = proc_stat.substr(0, proc_stat.find('\n'));
  if (!line.starts_with("cpu ") || ticks_per_second <= 0) return 0;
  line.remove_prefix(4);
  // user nice system idle iowait irq softirq steal; guest time is part of user.
  std::uint64_t busy_ticks = 0;
  for (int column = 0; column < 8; ++column) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    std::uint64_t ticks = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), ticks);
    if (error != std::errc()) break;
    line.remove_prefix(static_cast<std::size_t>(end - line.data()));
    const bool idle = column == 3 || column == 4 || column == 7;
    if (!idle) busy_ticks += ticks;
  }
  return busy_ticks * 1'000'000 / static_cast<std::uint64_t>(ticks_per_second);
}

Result<GuestStats> read_guest_stats() {
  constexpr std::size_t limit = 256 * 1024;
  GuestStats stats;
  stats.cpu_count = ::sysconf(_SC_NPROCESSORS_ONLN);
  SPACE_TRY(const std::string proc_stat, read_file("/proc/stat", limit));
  stats.cpu_used_us = busy_time_us(proc_stat, ::sysconf(_SC_CLK_TCK));

  SPACE_TRY(const std::string meminfo, read_file("/proc/meminfo", limit));
  const auto kib = [&](std::string_view key) { return keyed_number(meminfo, key).value_or(0) * 1024; };
  stats.memory_total = kib("MemTotal");
  stats.memory_cache = kib("Cached") + kib("Buffers");
  stats.memory_used = stats.memory_total - std::min(stats.memory_total, kib("MemAvailable"));

  struct statvfs disk{};
  if (::statvfs("/", &disk) != 0) return fail_errno(errno, "stat the root file system");
  stats.disk_total = disk.f_blocks * disk.f_frsize;
  stats.disk_used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize;
  return stats;
}

}  // namespace space::guest

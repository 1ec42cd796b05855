// What a VMM costs the host, as the host's kernel counts it: the one figure no guest can falsify.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace space {

struct VmmUsage {
  std::uint64_t cpu_us = 0;
  std::uint64_t rss_bytes = 0;
};

// From the text of /proc/PID/stat; nullopt if it is none. Pure.
std::optional<VmmUsage> parse_process_stat(std::string_view text, long ticks_per_second, long page_bytes);
// nullopt: no such process.
std::optional<VmmUsage> read_vmm_usage(pid_t pid);

}  // namespace space

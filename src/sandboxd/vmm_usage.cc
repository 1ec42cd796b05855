#include "sandboxd/vmm_usage.h"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "base/fd.h"

namespace space {

std::optional<VmmUsage> parse_process_stat(std::string_view text, long ticks_per_second, long page_bytes) {
  // Behind the name, which may hold anything: state is field 3, utime 14, stime 15, rss 24.
  constexpr std::size_t first = 3, utime = 14, stime = 15, rss = 24;
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || ticks_per_second <= 0 || page_bytes <= 0) return std::nullopt;
  text.remove_prefix(name_end + 1);
  std::array<std::uint64_t, rss + 1> fields{};
  for (std::size_t field = first; field <= rss; ++field) {
    const std::size_t start = text.find_first_not_of(' ');
    if (start == std::string_view::npos) return std::nullopt;
    text.remove_prefix(start);
    const std::size_t length = std::min(text.find(' '), text.size());
    std::from_chars(text.data(), text.data() + length, fields[field]);  // some are negative or letters: 0
    text.remove_prefix(length);
  }
  return VmmUsage{(fields[utime] + fields[stime]) * 1'000'000 / static_cast<std::uint64_t>(ticks_per_second),
                  fields[rss] * static_cast<std::uint64_t>(page_bytes)};
}

std::optional<VmmUsage> read_vmm_usage(pid_t pid) {
  constexpr std::size_t limit = 4096;
  if (pid <= 0) return std::nullopt;
  const auto text = read_file(fmt::format("/proc/{}/stat", pid), limit);
  if (!text) return std::nullopt;
  return parse_process_stat(*text, ::sysconf(_SC_CLK_TCK), ::sysconf(_SC_PAGESIZE));
}

}  // namespace space

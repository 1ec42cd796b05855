// Facts: files of the kernel and of the system, parsed for the checks. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/machine.h"

namespace space::cli::doctor {

struct Mount {
  std::string source;
  std::string point;
  std::string type;
  std::vector<std::string> options;

  bool read_only() const;
  bool has(std::string_view option) const;
};
std::vector<Mount> mounts(const Machine& machine);
// The mount a path lies on: the last of those with the longest matching point.
const Mount* mount_of(const std::vector<Mount>& mounts, const std::string& path);
// Mounted exactly there; the topmost when there are several.
const Mount* mounted_at(const std::vector<Mount>& mounts, const std::string& point);

struct Account {
  std::string name;
  std::uint64_t uid = 0;
  std::uint64_t gid = 0;
};
std::vector<Account> accounts(const Machine& machine);
std::optional<Account> account(const Machine& machine, std::string_view name);

struct Process {
  int pid = 0;
  std::string name;                // comm
  std::vector<std::string> words;  // command line
};
std::vector<Process> processes(const Machine& machine);

std::vector<std::string_view> lines_of(std::string_view text);
std::vector<std::string_view> words_of(std::string_view text, std::string_view separators = " \t");
std::optional<std::uint64_t> number(std::string_view text);  // leading decimal digits
// "MemAvailable:   123 kB" -> 123.
std::optional<std::uint64_t> value_of(std::string_view text, std::string_view key);
// The number in a file that holds one.
std::optional<std::uint64_t> setting(const Machine& machine, const std::string& path);
// The path itself, or its nearest ancestor that exists.
std::string nearest(const Machine& machine, std::string path);

inline constexpr std::uint64_t mib = 1 << 20;
inline constexpr std::uint64_t gib = 1 << 30;
std::string size_text(std::uint64_t bytes);  // "3.4 GiB"

}  // namespace space::cli::doctor

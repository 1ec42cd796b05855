// The pure half of cgroup.h.
#include <algorithm>
#include <charconv>

#include "priv/cgroup.h"

namespace space::priv {
namespace {

constexpr std::uint64_t cpu_period_us = 100'000;

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; at += word.size()) {
    const auto is_edge = [&](std::size_t i) { return i >= text.size() || text[i] == ' ' || text[i] == '\n'; };
    if ((at == 0 || is_edge(at - 1)) && is_edge(at + word.size())) return true;
  }
  return false;
}

Result<void> find_controller(std::vector<Hierarchy>& found, const std::vector<Mount>& mounts,
                             std::string_view unified_controllers, const char* name, bool Hierarchy::* use) {
  if (!found.empty() && found.front().unified && has_word(unified_controllers, name)) {
    found.front().*use = true;
    return {};
  }
  for (const Mount& mount : mounts) {
    if (mount.type != "cgroup" || !has_option(mount.options, name)) continue;
    auto known = std::ranges::find(found, mount.point, &Hierarchy::mount);
    if (known == found.end()) known = found.insert(found.end(), Hierarchy{mount.point, false});
    (*known).*use = true;
    return {};
  }
  return fail(Code::unavailable, "no control group hierarchy has the {} controller", name);
}

void add_unified(std::vector<CgroupSetting>& out, const Hierarchy& hierarchy, const CgroupLimits& limits) {
  if (hierarchy.memory) {
    out.push_back({"memory.max", fmt::format("{}", limits.memory_bytes)});
    out.push_back({"memory.swap.max", "0", true});
    out.push_back({"memory.oom.group", "1"});
  }
  if (hierarchy.pids) out.push_back({"pids.max", fmt::format("{}", limits.pids)});
  if (hierarchy.cpu)
    out.push_back({"cpu.max", fmt::format("{} {}", limits.cpu_percent * cpu_period_us / 100, cpu_period_us)});
}

void add_legacy(std::vector<CgroupSetting>& out, const Hierarchy& hierarchy, const CgroupLimits& limits) {
  if (hierarchy.memory) {
    out.push_back({"memory.limit_in_bytes", fmt::format("{}", limits.memory_bytes)});
    // Memory and swap together: no swap. There only where the kernel accounts for swap.
    out.push_back({"memory.memsw.limit_in_bytes", fmt::format("{}", limits.memory_bytes), true});
  }
  if (hierarchy.pids) out.push_back({"pids.max", fmt::format("{}", limits.pids)});
  if (hierarchy.cpu) {
    out.push_back({"cpu.cfs_period_us", fmt::format("{}", cpu_period_us)});
    out.push_back({"cpu.cfs_quota_us", fmt::format("{}", limits.cpu_percent * cpu_period_us / 100)});
  }
  // Every device it uses arrives opened.
  if (hierarchy.devices) out.push_back({"devices.deny", "a"});
}

}  // namespace

Result<std::vector<Hierarchy>> choose_hierarchies(const std::vector<Mount>& mounts,
                                                  std::string_view unified_controllers) {
  std::vector<Hierarchy> found;
  const auto unified = std::ranges::find(mounts, "cgroup2", &Mount::type);
  if (unified != mounts.end()) found.push_back({unified->point, true});
  SPACE_CHECK(find_controller(found, mounts, unified_controllers, "memory", &Hierarchy::memory));
  SPACE_CHECK(find_controller(found, mounts, unified_controllers, "pids", &Hierarchy::pids));
  SPACE_CHECK(find_controller(found, mounts, unified_controllers, "cpu", &Hierarchy::cpu));
  (void)find_controller(found, mounts, "", "devices", &Hierarchy::devices);
  return found;
}

std::vector<CgroupSetting> settings_for(const Hierarchy& hierarchy, const CgroupLimits& limits) {
  std::vector<CgroupSetting> settings;
  if (hierarchy.unified)
    add_unified(settings, hierarchy, limits);
  else
    add_legacy(settings, hierarchy, limits);
  return settings;
}

Result<std::string> instance_name(std::string_view run) {
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
  if (!run.starts_with('/') || run.size() < 2 || run.size() > 200 || run.ends_with('/') ||
      run.find("//") != std::string_view::npos || run.find_first_not_of(allowed) != std::string_view::npos)
    return fail(
        Code::invalid_argument,
        "the run directory must be an absolute path of letters, digits and . _ - only, at most 200 long");
  std::string name(run.substr(1));
  std::ranges::replace(name, '/', '+');  // not among the allowed, so two paths never share a name
  return name;
}

std::uint64_t counter_in(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ' ') continue;
    std::uint64_t value = 0;
    std::from_chars(line.data() + key.size() + 1, line.data() + line.size(), value);
    return value;
  }
  return 0;
}

}  // namespace space::priv

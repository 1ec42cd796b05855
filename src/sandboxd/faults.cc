#include "sandboxd/faults.h"

#include <unistd.h>

#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <set>
#include <string>

#include "base/log.h"

namespace space {
namespace {

constexpr std::array<std::string_view, 11> names = {
    "no-reseed",           "old-daemon",           "cont-before-clone", "enospc-pages",
    "eio-pages",           "eio-vmstate",          "eio-manifest",      "fail-device-state",
    "fail-snapshot-begin", "fail-snapshot-finish", "fast-schedule"};

struct Switches {
  std::uint32_t on = 0;
  std::string crash_at;
  std::set<std::uint64_t> fail_restore_of;
};

Switches& switches() {
  static Switches all;
  return all;
}

}  // namespace

Result<void> switch_on_fault(std::string_view name) {
  constexpr std::string_view crash = "crash-at=";
  if (name.starts_with(crash)) {
    switches().crash_at = name.substr(crash.size());
    return {};
  }
  constexpr std::string_view restore = "fail-restore-of=";
  if (name.starts_with(restore)) {
    std::uint64_t number = 0;
    const std::string_view digits = name.substr(restore.size());
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size())
      return fail(Code::invalid_argument, "'{}' is no number of a snapshot", digits);
    switches().fail_restore_of.insert(number);
    return {};
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != name) continue;
    switches().on |= std::uint32_t{1} << i;
    log::warn("fault switched on", {{"fault", name}});
    return {};
  }
  return fail(Code::invalid_argument, "there is no fault '{}'", name);
}

bool is_on(Fault fault) {
  return (switches().on >> static_cast<unsigned>(fault) & 1) != 0;
}

Result<void> fail_if(Fault fault, Code code) {
  if (is_on(fault)) return fail(code, "the fault '{}' is on", names[static_cast<std::size_t>(fault)]);
  return {};
}

Result<void> fail_restore_of(std::uint64_t number) {
  if (!switches().fail_restore_of.contains(number)) return {};
  return fail(Code::unavailable, "the fault 'fail-restore-of={}' is on", number);
}

void crash_point(std::string_view name) {
  if (name != switches().crash_at) return;
  log::warn("crash as asked for", {{"at", name}});
  ::kill(::getpid(), SIGKILL);
}

}  // namespace space

#include "sandboxd/faults.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <string>

#include "base/log.h"

namespace space {
namespace {

constexpr std::array<std::string_view, 10> names = {
    "no-reseed",   "old-daemon",   "cont-before-clone", "enospc-pages",        "eio-pages",
    "eio-vmstate", "eio-manifest", "fail-device-state", "fail-snapshot-begin", "fail-snapshot-finish"};

struct Switches {
  std::uint32_t on = 0;
  std::string crash_at;
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

void crash_point(std::string_view name) {
  if (name != switches().crash_at) return;
  log::warn("crash as asked for", {{"at", name}});
  ::kill(::getpid(), SIGKILL);
}

}  // namespace space

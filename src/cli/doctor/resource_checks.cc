// What the machine must have left: memory, disk, descriptors, a sound clock.
#include <fmt/core.h>

#include "base/clock.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/facts.h"

namespace space::cli::doctor {

namespace {

constexpr std::uint64_t kib = 1024;

Finding check_memory(const Machine& machine) {
  const auto text = machine.text("/proc/meminfo");
  const std::uint64_t available = value_of(text.value_or(""), "MemAvailable:").value_or(0) * kib;
  if (available >= gib) return good("memory", size_text(available) + " available");
  return bad(
      "memory", "only " + size_text(available) + " available",
      "a sandbox of the default shape needs 640 MiB: creating one is refused, or ends another",
      "kill sandboxes (space ls; space kill ID), stop other programs (ps aux --sort=-rss | head), or add "
      "memory");
}

Finding check_overcommit(const Machine& machine) {
  if (setting(machine, "/proc/sys/vm/overcommit_memory").value_or(0) != 2)
    return good("overcommit", "memory is counted when it is used");
  return warning("overcommit", "vm.overcommit_memory is 2",
                 "a sandbox's whole memory counts when it starts: starts fail while memory is free",
                 "sysctl -w vm.overcommit_memory=0, and the same in /etc/sysctl.d/");
}

Finding check_hugepages(const Machine& machine) {
  const std::string text = machine.text("/proc/meminfo").value_or("");
  const std::uint64_t reserved =
      value_of(text, "HugePages_Total:").value_or(0) * value_of(text, "Hugepagesize:").value_or(0) * kib;
  const std::uint64_t total = value_of(text, "MemTotal:").value_or(0) * kib;
  if (reserved == 0 || reserved < total / 4) return good("huge pages", "do not hold much memory back");
  return warning("huge pages",
                 fmt::format("{} of {} are reserved as huge pages", size_text(reserved), size_text(total)),
                 "sandboxes do not use them: that memory is lost to SPACE",
                 "sysctl -w vm.nr_hugepages=0, unless another program wants them");
}

// A pool that is there already needs less than one to be made.
Finding check_disk(const Machine& machine, const Installation& installation) {
  const std::string& state = installation.directories.state;
  const std::string path = nearest(machine, state);
  const auto disk = machine.disk(path);
  constexpr const char* means =
      "the pool file grows with what sandboxes write; without room their disks fail";
  if (!disk) return bad("disk", "free space of " + path + " cannot be read", means, "stat -f " + path);
  const std::uint64_t needed = machine.file(state + "/pool.img") ? 2 * gib : 8 * gib;
  if (disk->files > 0 && disk->free_files < 1000)
    return bad("disk", fmt::format("{} files can still be made on the disk of {}", disk->free_files, state),
               "databases, logs and templates need new files", "remove files: df -i " + path);
  if (disk->free_bytes >= needed)
    return good("disk", fmt::format("{} free for {}", size_text(disk->free_bytes), state));
  return bad("disk", fmt::format("only {} free for {}", size_text(disk->free_bytes), state), means,
             fmt::format("free {} (du -xh -d1 {} | sort -h), or set 'state' in {} to a bigger disk",
                         size_text(needed - disk->free_bytes), path, installation.config));
}

Finding check_descriptors(const Machine& machine) {
  const std::uint64_t limit = machine.descriptor_limit();
  if (limit >= 1024) return good("open files", fmt::format("{} allowed", limit));
  return warning("open files", fmt::format("only {} allowed", limit),
                 "each sandbox and each connection holds some: creates and requests will fail early",
                 "ulimit -n 65536 before 'space up'; for good: /etc/security/limits.conf");
}

Finding check_entropy(const Machine& machine) {
  const auto bits = setting(machine, "/proc/sys/kernel/random/entropy_avail");
  if (!bits || *bits >= 128) return good("entropy", "enough");
  return warning("entropy", fmt::format("{} bits", *bits),
                 "ids, tokens and each guest's seed wait for randomness",
                 "apt-get install rng-tools5; a VM: give it a virtio-rng device");
}

Finding check_clock(const Machine& machine, const Installation& installation) {
  const std::int64_t now = machine.now_s();
  const auto text = [](std::int64_t seconds) { return to_rfc3339(Wall(std::chrono::seconds(seconds))); };
  constexpr std::int64_t first = 1'735'689'600;  // 2025: before SPACE existed
  constexpr std::int64_t last = 4'102'444'800;   // 2100
  constexpr const char* repair = "timedatectl set-ntp true (or: date --set '2030-01-31 12:00')";
  if (now < first || now > last)
    return bad("clock", "this machine believes it is " + text(now),
               "sandboxes time out at once or never, and every guest gets this time", repair);
  const auto database = machine.file(installation.directories.state + "/control/control.db");
  constexpr std::int64_t hour = 3600;
  if (database && database->modified_s > now + hour)
    return bad(
        "clock",
        fmt::format("it is {}, but the database was written at {}", text(now), text(database->modified_s)),
        "the clock went back: sandboxes live longer than asked for", repair);
  return good("clock", text(now));
}

}  // namespace

Section resource_section(const Machine& machine, const Installation& installation) {
  return {"Resources",
          {check_memory(machine), check_overcommit(machine), check_hugepages(machine),
           check_disk(machine, installation), check_descriptors(machine), check_entropy(machine),
           check_clock(machine, installation)}};
}

}  // namespace space::cli::doctor

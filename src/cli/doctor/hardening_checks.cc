// How hard the host makes it for a guest that has taken over its VMM. Only KSM stops SPACE; the rest is
// advice.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "cli/doctor/checks.h"
#include "cli/doctor/facts.h"

namespace space::cli::doctor {

namespace {

Finding check_ksm(const Machine& machine) {
  const auto run = setting(machine, "/sys/kernel/mm/ksm/run");
  if (!run) return good("KSM", "the kernel has none");
  if (*run != 1) return good("KSM", "off");
  return bad(
      "KSM", "/sys/kernel/mm/ksm/run is 1",
      "one guest can tell by timing what is in another's memory: no sandbox is started",
      "echo 2 > /sys/kernel/mm/ksm/run, and stop what switches it on (systemctl disable --now ksmtuned)");
}

// An encrypted device is one of the device mapper whose uuid says so. zram never leaves memory.
bool leaks(const Machine& machine, const std::string& device) {
  const std::string name = device.substr(device.rfind('/') + 1);
  if (name.starts_with("zram")) return false;
  return !machine.text("/sys/block/" + name + "/dm/uuid").value_or("").starts_with("CRYPT-");
}

Finding check_swap(const Machine& machine) {
  const std::string swaps = machine.text("/proc/swaps").value_or("");
  std::vector<std::string> plain;
  for (const auto line : lines_of(swaps))
    if (line.starts_with('/'))
      if (std::string device(words_of(line).front()); leaks(machine, device))
        plain.push_back(std::move(device));
  if (plain.empty()) return good("swap", "none on a disk that is not encrypted");
  return warning(
      "swap", fmt::format("{} may not be encrypted", fmt::join(plain, ", ")),
      "what guests keep in memory may be written to that disk and outlive them",
      "swapoff -a, and remove it from /etc/fstab; or encrypt it: crypttab with /dev/urandom as key");
}

Finding check_smt(const Machine& machine) {
  if (setting(machine, "/sys/devices/system/cpu/smt/active").value_or(0) == 0)
    return good("SMT", "no two threads share a core");
  return warning(
      "SMT", "two threads share each core",
      "a guest may observe the one on the other thread (MDS, L1TF and what comes after them)",
      "echo off > /sys/devices/system/cpu/smt/control; for good: nosmt on the kernel's command line");
}

// A setting that closes a way into the kernel. Where there is no file, the kernel lacks what it would close.
struct Sysctl {
  const char* check;
  const char* name;  // "kernel.kptr_restrict"
  std::uint64_t least;
  std::uint64_t most;
  std::uint64_t advised;
  const char* means;
};

constexpr std::array sysctls = std::to_array<Sysctl>({
    {"unprivileged BPF", "kernel.unprivileged_bpf_disabled", 1, 2, 2,
     "any process may load programs into the kernel, whose verifier has been broken before"},
    {"userfaultfd", "vm.unprivileged_userfaultfd", 0, 0, 0,
     "any process may hold the kernel up at a page fault, which makes its races easy to win"},
    {"io_uring", "kernel.io_uring_disabled", 1, 2, 2,
     "any process may use io_uring, where many of the kernel's holes of late were"},
    {"kernel addresses", "kernel.kptr_restrict", 1, 2, 2,
     "any process may read where the kernel's objects are"},
    {"kernel log", "kernel.dmesg_restrict", 1, 1, 1,
     "any process may read the kernel's log, addresses and consoles of others included"},
    {"ptrace", "kernel.yama.ptrace_scope", 1, 3, 2, "processes of one uid may take each other over"},
});

Finding check_sysctl(const Machine& machine, const Sysctl& row) {
  std::string path = std::string("/proc/sys/") + row.name;
  std::ranges::replace(path, '.', '/');
  const auto value = setting(machine, path);
  if (!value) return good(row.check, fmt::format("this kernel has no {}", row.name));
  if (*value >= row.least && *value <= row.most)
    return good(row.check, fmt::format("{} is {}", row.name, *value));
  const std::string line = fmt::format("{}={}", row.name, row.advised);
  return warning(row.check, fmt::format("{} is {}", row.name, *value), row.means,
                 fmt::format("sysctl -w {0}; for good: echo {0} >> /etc/sysctl.d/60-space.conf", line));
}

Finding check_cpu(const Machine& machine) {
  const std::string folder = "/sys/devices/system/cpu/vulnerabilities";
  std::vector<std::string> open;
  for (const std::string& name : machine.names(folder)) {
    const std::string says = machine.text(folder + "/" + name).value_or("");
    if (says.starts_with("Vulnerable") || says.find(": Vulnerable") != std::string::npos)
      open.push_back(name);
  }
  if (open.empty()) return good("CPU flaws", "mitigated, as far as the kernel knows");
  return warning(
      "CPU flaws", fmt::format("vulnerable: {}", fmt::join(open, ", ")),
      "a guest may read memory of others, or of this machine",
      "apt-get install intel-microcode (or amd64-microcode), no mitigations=off, reboot; a VM: its "
      "own host decides");
}

using Version = std::array<std::uint64_t, 3>;

// "1:10.0.2+ds-2+deb13u1" and "10.0.2" -> 10.0.2
Version version_of(std::string_view text) {
  if (const auto epoch = text.find(':'); epoch != std::string_view::npos) text.remove_prefix(epoch + 1);
  Version version{};
  const auto parts = words_of(text, ".");
  for (std::size_t i = 0; i < std::min(parts.size(), version.size()); ++i)
    version[i] = number(parts[i]).value_or(0);
  return version;
}

// Holes in devices that a sandbox has, and the release that closed each.
struct Fix {
  Version since;
  const char* what;
};
constexpr std::array fixes = std::to_array<Fix>({
    {{8, 2, 1}, "CVE-2023-6693 (virtio-net)"},
    {{8, 2, 3}, "CVE-2024-3446 (virtio-serial)"},
    {{9, 1, 0}, "CVE-2024-6505 (virtio-net)"},
    {{9, 1, 1}, "CVE-2024-8612 (virtio-blk)"},
});
constexpr Version tested_series = {10, 0, 0};

// What Debian calls the package tells which fixes are in; a QEMU from elsewhere has its own version only.
std::string qemu_version(const Machine& machine) {
  if (auto package = machine.output({"/usr/bin/dpkg-query", "-W", "-f=${Version}", "qemu-system-x86"}))
    return *std::move(package);
  const std::string said = machine.output({"/usr/bin/qemu-system-x86_64", "--version"}).value_or("");
  const auto at = said.find("version ");
  return at == std::string::npos ? "" : std::string(words_of(said.substr(at + 8), " (\n").front());
}

Finding check_qemu_fixes(const Machine& machine) {
  const std::string text = qemu_version(machine);
  const Version version = version_of(text);
  if (version < Version{8, 2, 0}) return good("QEMU fixes", "see 'qemu'");
  if (version >= tested_series) return good("QEMU fixes", text);
  std::vector<std::string> open;
  for (const Fix& fix : fixes)
    if (version < fix.since) open.emplace_back(fix.what);
  return warning("QEMU fixes", text + " is older than the 10.0 series",
                 open.empty() ? "the jail's filter is made for 10.0"
                              : fmt::format("it may lack the fixes of {}", fmt::join(open, ", ")),
                 "apt-get install -t bookworm-backports qemu-system-x86");
}

Finding check_landlock(const Machine& machine) {
  if (const int abi = machine.landlock_abi(); abi > 0) return good("Landlock", fmt::format("ABI {}", abi));
  return warning(
      "Landlock", "the kernel has none, or it is switched off",
      "one layer of the jail and of the daemons' own confinement is missing",
      "add landlock to lsm= on the kernel's command line, or boot a kernel that has it (Debian's does)");
}

Finding check_user_namespaces(const Machine& machine) {
  constexpr const char* check = "user namespaces";
  constexpr const char* means = "one layer of the jail is missing: its root is the machine's";
  if (!machine.link("/proc/self/ns/user"))
    return warning(check, "the kernel has none", means, "boot a kernel that has them (Debian's does)");
  if (const auto most = setting(machine, "/proc/sys/user/max_user_namespaces"); most && *most < 16)
    return warning(check, fmt::format("at most {} are allowed", *most), means,
                   "sysctl -w user.max_user_namespaces=65536");
  return good(check, "available");
}

}  // namespace

Section hardening_section(const Machine& machine) {
  Section section{"Hardening", {check_ksm(machine), check_swap(machine), check_smt(machine)}};
  for (const Sysctl& row : sysctls) section.findings.push_back(check_sysctl(machine, row));
  for (Finding finding : {check_cpu(machine), check_qemu_fixes(machine), check_landlock(machine),
                          check_user_namespaces(machine)})
    section.findings.push_back(std::move(finding));
  return section;
}

}  // namespace space::cli::doctor

// What the kernel must offer: file systems, devices, control groups, namespaces.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/facts.h"

namespace space::cli::doctor {

namespace {

std::string kernel_release(const Machine& machine) {
  const std::string text = machine.text("/proc/sys/kernel/osrelease").value_or("");
  return text.substr(0, text.find('\n'));
}

Finding check_kernel(const Machine& machine) {
  const std::string release = kernel_release(machine);
  const auto parts = words_of(release, ".-");
  const auto major = parts.empty() ? std::nullopt : number(parts[0]);
  const auto minor = parts.size() < 2 ? std::nullopt : number(parts[1]);
  if (major && minor && (*major > 5 || (*major == 5 && *minor >= 10)))
    return good("kernel", "Linux " + release);
  return bad("kernel", release.empty() ? "its version cannot be read" : "Linux " + release,
             "SPACE needs Linux 5.10 or newer (openat2, loop devices made in one step)",
             "apt-get install linux-image-amd64, then reboot");
}

// A module that the kernel loads by itself at the first use is as good as one that is there.
bool loadable(const Machine& machine, const std::string& module) {
  const std::string folder = "/lib/modules/" + kernel_release(machine);
  const std::string names = machine.text(folder + "/modules.dep").value_or("");
  return names.find("/" + module + ".ko") != std::string::npos;
}

Finding check_btrfs(const Machine& machine) {
  const std::string known = machine.text("/proc/filesystems").value_or("");
  for (const auto line : lines_of(known))
    if (words_of(line).back() == "btrfs") return good("btrfs", "the kernel knows it");
  if (loadable(machine, "btrfs")) return good("btrfs", "a module, loaded at the first use");
  return bad("btrfs", "the kernel has no btrfs", "the disk pool is a btrfs: no sandbox can have a disk",
             "modprobe btrfs; if that fails, boot a kernel that has it (Debian's does)");
}

// Where a kernel tells what it has.
Finding check_gateway_rules(const Machine& machine) {
  const std::string folder = "/lib/modules/" + kernel_release(machine);
  const std::string built_in = machine.text(folder + "/modules.builtin").value_or("");
  if (built_in.empty() && machine.text(folder + "/modules.dep").value_or("").empty())
    return good("gateway rules", "tried by space-noded at its start");
  for (const char* module : {"nf_tables", "nft_tproxy", "nft_reject_inet"})
    if (!loadable(machine, module) && built_in.find(std::string("/") + module + ".ko") == std::string::npos)
      return bad("gateway rules", fmt::format("the kernel has no {}", module),
                 "what a sandbox sends cannot be led to the network gateway: none can be started",
                 "boot a kernel that has it (Debian's does)");
  return good("gateway rules", "nf_tables with tproxy and reject");
}

bool is_device(const Machine& machine, const std::string& path, unsigned major, unsigned minor) {
  const auto file = machine.file(path);
  return file && S_ISCHR(file->mode) && file->major == major && file->minor == minor;
}

Finding check_device(const Machine& machine, const std::string& check, const std::string& path,
                     unsigned minor, const std::string& module, const std::string& means) {
  if (is_device(machine, path, 10, minor)) return good(check, "present");
  const bool there = machine.file(path).has_value();
  return bad(
      check, there ? path + " is something else" : path + " is missing", means,
      there ? fmt::format("rm {} && mknod -m 600 {} c 10 {}", path, path, minor) : "modprobe " + module);
}

// What space-sandboxd remembers of its trial of KVM in this boot of the machine; nullopt: not tried yet.
std::optional<bool> kvm_trial(const Machine& machine, const Installation& installation) {
  const auto text = machine.text(installation.directories.state + "/sandboxd/accelerator.json");
  const auto record = text ? parse_json_object(*text, "record") : fail(Code::not_found, "none");
  if (!record) return std::nullopt;
  const auto boot_id = text_member(*record, "boot_id");
  const std::string now = machine.text("/proc/sys/kernel/random/boot_id").value_or("");
  if (!boot_id || !*boot_id || **boot_id != now.substr(0, now.find('\n'))) return std::nullopt;
  const auto works = bool_member(*record, "kvm_works");
  return works ? *works : std::nullopt;
}

constexpr const char* emulated =
    "sandboxes run under emulation (TCG): much slower, and the jail is the only wall between a guest and "
    "this "
    "machine";

Finding check_kvm(const Machine& machine, const Installation& installation) {
  if (!machine.file("/dev/kvm")) {
    const std::string cpu = machine.text("/proc/cpuinfo").value_or("");
    const bool able = cpu.find(" vmx") != std::string::npos || cpu.find(" svm") != std::string::npos;
    return warning("kvm", "no /dev/kvm", emulated,
                   able ? "modprobe kvm_intel || modprobe kvm_amd"
                        : "enable virtualisation in the firmware, or nested virtualisation on the host");
  }
  if (!is_device(machine, "/dev/kvm", 10, 232))
    return warning("kvm", "/dev/kvm is something else than the KVM device", emulated,
                   "rm /dev/kvm && mknod -m 660 /dev/kvm c 10 232");
  const auto works = kvm_trial(machine, installation);
  if (!works) return good("kvm", "present; tried with a real guest once the platform is up");
  if (*works) return good("kvm", "boots guests");
  return warning("kvm", "present, but a guest did not boot under it", emulated,
                 "nothing to do if this machine is itself a VM without nested virtualisation; else look at "
                 "dmesg, reboot, and it is tried again");
}

struct Controller {
  std::string name;
  bool usable = false;
  bool read_only = false;
};

Controller find_controller(const Machine& machine, const std::vector<Mount>& all, const std::string& name) {
  for (const Mount& mount : all) {
    if (mount.type == "cgroup2") {
      const std::string offered = machine.text(mount.point + "/cgroup.controllers").value_or("");
      const auto words = words_of(offered, " \n");
      if (std::ranges::find(words, name) != words.end()) return {name, true, mount.read_only()};
    }
    if (mount.type == "cgroup" && mount.has(name)) return {name, true, mount.read_only()};
  }
  return {name};
}

// Of the kernel, whatever is mounted: "name hierarchy groups enabled".
bool switched_off(const Machine& machine, std::string_view name) {
  const std::string text = machine.text("/proc/cgroups").value_or("");
  for (const auto line : lines_of(text)) {
    const auto words = words_of(line);
    if (words.size() >= 4 && words[0] == name) return words[3] == "0";
  }
  return false;
}

Finding check_cgroups(const Machine& machine) {
  constexpr const char* means = "sandboxes cannot be bounded, and none is started without bounds";
  const auto all = mounts(machine);
  std::vector<std::string> missing;
  for (const char* name : {"memory", "pids", "cpu"}) {
    const Controller controller = find_controller(machine, all, name);
    if (controller.usable && controller.read_only)
      return bad("cgroups", fmt::format("the {} control groups are mounted read-only", name), means,
                 "mount -o remount,rw /sys/fs/cgroup; in a container: give it a writable cgroup mount");
    if (!controller.usable) missing.emplace_back(name);
  }
  if (missing.empty()) return good("cgroups", "memory, pids and cpu can be bounded");
  const std::string seen = fmt::format("no control group hierarchy offers {}", fmt::join(missing, ", "));
  if (std::ranges::any_of(missing, [&](const std::string& name) { return switched_off(machine, name); }))
    return bad("cgroups", seen + " (switched off at boot)", means,
               "add cgroup_enable=memory to GRUB_CMDLINE_LINUX in /etc/default/grub, update-grub, reboot");
  if (mounted_at(all, "/sys/fs/cgroup") == nullptr)
    return bad("cgroups", seen, means, "mount -t cgroup2 none /sys/fs/cgroup");
  return bad("cgroups", seen, means,
             "in a container: delegate the controllers to it (systemd: Delegate=yes); else mount their "
             "hierarchies below /sys/fs/cgroup");
}

Finding check_namespaces(const Machine& machine) {
  constexpr const char* means = "every sandbox has namespaces of its own: none can be started";
  for (const char* kind : {"net", "ipc", "uts"}) {
    if (!machine.link(fmt::format("/proc/self/ns/{}", kind)))
      return bad("namespaces", fmt::format("the kernel has no {} namespaces", kind), means,
                 "boot a kernel that has them (Debian's does)");
    const std::string limit = fmt::format("/proc/sys/user/max_{}_namespaces", kind);
    if (const auto most = setting(machine, limit); most && *most < 16)
      return bad("namespaces", fmt::format("at most {} {} namespaces are allowed", *most, kind), means,
                 fmt::format("sysctl -w user.max_{}_namespaces=65536", kind));
  }
  return good("namespaces", "net, ipc and uts");
}

// Debian's default AppArmor is no obstacle; a profile for QEMU, or SELinux, may be.
Finding check_confinement(const Machine& machine) {
  if (setting(machine, "/sys/fs/selinux/enforce").value_or(0) == 1)
    return warning("confinement", "SELinux is enforcing", "its policy may forbid QEMU what SPACE hands to it",
                   "ausearch -m avc -ts recent; when it names a space- process, allow that or setenforce 0");
  const std::string profiles = machine.text("/sys/kernel/security/apparmor/profiles").value_or("");
  for (const auto line : lines_of(profiles))
    if (line.find("qemu-system") != std::string_view::npos && line.ends_with("(enforce)"))
      return warning("confinement", fmt::format("an AppArmor profile is enforced: {}", line),
                     "it may forbid QEMU what SPACE hands to it",
                     "dmesg | grep DENIED; when it names QEMU: aa-complain /usr/bin/qemu-system-x86_64");
  return good("confinement", "no policy of SELinux or AppArmor over QEMU");
}

}  // namespace

Section kernel_section(const Machine& machine, const Installation& installation) {
  return {"Kernel",
          {check_kernel(machine), check_kvm(machine, installation), check_btrfs(machine),
           check_device(machine, "loop devices", "/dev/loop-control", 237, "loop",
                        "the disk pool is a file on a loop device: it cannot be mounted"),
           check_device(machine, "tun", "/dev/net/tun", 200, "tun",
                        "every sandbox has a tap device: none can be started"),
           check_gateway_rules(machine), check_cgroups(machine), check_namespaces(machine),
           check_confinement(machine)}};
}

}  // namespace space::cli::doctor

// FakeMachine: a computer in a few maps. Fresh, it is sound and runs a SPACE of two templates; tests break
// it.
#pragma once

#include <algorithm>
#include <map>
#include <set>

#include "cli/doctor/checks.h"
#include "cli/doctor/machine.h"

namespace space::cli::doctor {

class FakeMachine final : public Machine {
 public:
  FakeMachine() {
    furnish_kernel();
    furnish_hardening();
    furnish_software();
    furnish_platform();
  }

  // Each makes what stands in its way.
  void put(const std::string& path, const std::string& content, mode_t mode = S_IFREG | 0644, uid_t uid = 0) {
    make_parents(path);
    texts_[path] = content;
    files_[path] = {.mode = mode, .uid = uid, .bytes = content.size(), .modified_s = now};
  }
  void put_folder(const std::string& path, unsigned permissions = 0755, uid_t uid = 0) {
    make_parents(path);
    files_[path] = {.mode = S_IFDIR | permissions, .uid = uid, .modified_s = now};
  }
  void put_device(const std::string& path, unsigned minor) {
    put(path, "", S_IFCHR | 0600);
    files_[path].major = 10;
    files_[path].minor = minor;
  }
  void put_link(const std::string& path, const std::string& target) {
    put(path, "");
    links_[path] = target;
  }
  void put_process(int pid, const std::string& name, const std::string& command, unsigned uid,
                   const std::string& cgroup) {
    const std::string folder = "/proc/" + std::to_string(pid);
    std::string line = command;
    std::ranges::replace(line, ' ', '\0');
    put(folder + "/comm", name.substr(0, 15) + "\n");
    put(folder + "/cmdline", line);
    put(folder + "/status", "Uid:\t" + std::to_string(uid) + "\n");
    put(folder + "/cgroup", "4:memory:" + cgroup + "\n");
    put_link(folder + "/exe", command.substr(0, command.find(' ')));
  }
  void remove(const std::string& path) {
    const auto below = [&](const auto& entry) {
      return entry.first == path || entry.first.starts_with(path + "/");
    };
    std::erase_if(texts_, below);
    std::erase_if(files_, below);
    std::erase_if(links_, below);
  }
  // As after `space down --all`.
  void stop() {
    locks.clear();
    for (const char* pid : {"501", "502", "503", "600"}) remove("/proc/" + std::string(pid));
    content("/proc/net/tcp").clear();
    remove("/sys/block/loop0");
    replace("/proc/self/mounts", "/dev/loop0 /var/lib/space/pool btrfs rw,noatime 0 0\n", "");
  }
  FileFacts& facts(const std::string& path) { return files_.at(path); }
  std::string& content(const std::string& path) { return texts_.at(path); }
  void replace(const std::string& path, const std::string& from, const std::string& to) {
    std::string& text = content(path);
    text.replace(text.find(from), from.size(), to);
  }

  std::optional<std::string> text(const std::string& path) const override { return found(texts_, path); }
  std::optional<std::string> tail(const std::string& path) const override { return text(path); }
  std::optional<FileFacts> file(const std::string& path) const override { return found(files_, path); }
  std::optional<std::string> link(const std::string& path) const override { return found(links_, path); }
  std::vector<std::string> names(const std::string& folder) const override {
    std::vector<std::string> names;
    for (const auto& [path, facts] : files_)
      if (path.starts_with(folder + "/") && path.find('/', folder.size() + 1) == std::string::npos)
        names.push_back(path.substr(folder.size() + 1));
    return names;
  }
  std::optional<DiskFacts> disk(const std::string& path) const override {
    return path.ends_with("/pool") ? pool_disk : state_disk;
  }
  std::optional<std::string> output(const std::vector<std::string>& argv) const override {
    std::string line = argv.front();
    for (std::size_t i = 1; i < argv.size(); ++i) line += " " + argv[i];
    return found(outputs, line);
  }
  bool locked(const std::string& path) const override { return locks.contains(path); }
  uid_t user() const override { return effective_user; }
  std::int64_t now_s() const override { return now; }
  std::uint64_t descriptor_limit() const override { return descriptors; }
  int landlock_abi() const override { return abi; }
  std::string own_folder() const override { return "/usr/lib/space"; }

  std::map<std::string, std::string> outputs;
  std::set<std::string> locks;
  std::optional<DiskFacts> state_disk = DiskFacts{100ULL << 30, 80ULL << 30, 1'000'000, 900'000};
  std::optional<DiskFacts> pool_disk = DiskFacts{64ULL << 30, 60ULL << 30, 0, 0};
  uid_t effective_user = 0;
  std::int64_t now = 1'800'000'000;
  std::uint64_t descriptors = 1024;
  int abi = 6;

 private:
  template <class Value>
  static std::optional<Value> found(const std::map<std::string, Value>& all, const std::string& key) {
    const auto entry = all.find(key);
    return entry == all.end() ? std::nullopt : std::optional(entry->second);
  }
  void make_parents(const std::string& path) {
    for (std::size_t at = path.rfind('/'); at != std::string::npos && at > 0; at = path.rfind('/', at - 1))
      files_.try_emplace(path.substr(0, at), FileFacts{.mode = S_IFDIR | 0755, .modified_s = now});
    files_.try_emplace("/", FileFacts{.mode = S_IFDIR | 0755, .modified_s = now});
  }
  void furnish_kernel();
  void furnish_hardening();
  void furnish_software();
  void furnish_platform();

  std::map<std::string, std::string> texts_;
  std::map<std::string, FileFacts> files_;
  std::map<std::string, std::string> links_;
};

inline void FakeMachine::furnish_kernel() {
  put("/proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
  put("/proc/filesystems", "nodev\tproc\n\text4\n\tbtrfs\n");
  put_device("/dev/kvm", 232);
  put_device("/dev/loop-control", 237);
  put_device("/dev/net/tun", 200);
  put("/proc/self/mounts",
      "/dev/vda1 / ext4 rw,relatime 0 0\n"
      "tmpfs /run tmpfs rw,nosuid,nodev,noexec 0 0\n"
      "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
      "/dev/loop0 /var/lib/space/pool btrfs rw,noatime 0 0\n");
  put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma\n");
  put("/proc/cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\nmemory\t0\t9\t1\npids\t0\t9\t1\n");
  for (const char* kind : {"net", "ipc", "uts"}) {
    put_link(std::string("/proc/self/ns/") + kind, "x:[1]");
    put(std::string("/proc/sys/user/max_") + kind + "_namespaces", "63000\n");
  }
  put("/proc/meminfo",
      "MemTotal:       16000000 kB\nMemAvailable:    8000000 kB\nHugePages_Total:       0\nHugepagesize:     "
      "  2048 kB\n");
  put("/proc/sys/vm/overcommit_memory", "0\n");
  put("/proc/sys/kernel/random/entropy_avail", "256\n");
  put("/proc/sys/kernel/random/boot_id", "this-boot\n");
  put("/proc/stat", "cpu 1 2 3\nbtime " + std::to_string(now - 86400) + "\n");
  put("/proc/net/tcp",
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
      "   0: 0100007F:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000   990        0 777 1 0 "
      "100 0\n");
}

inline void FakeMachine::furnish_hardening() {
  put("/sys/kernel/mm/ksm/run", "0\n");
  put("/proc/swaps", "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n");
  put("/sys/devices/system/cpu/smt/active", "0\n");
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"kernel/unprivileged_bpf_disabled", "2"},
                                          {"vm/unprivileged_userfaultfd", "0"},
                                          {"kernel/io_uring_disabled", "2"},
                                          {"kernel/kptr_restrict", "2"},
                                          {"kernel/dmesg_restrict", "1"},
                                          {"kernel/yama/ptrace_scope", "2"},
                                          {"user/max_user_namespaces", "63000"}})
    put("/proc/sys/" + name, value + "\n");
  put("/sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI\n");
  put("/sys/devices/system/cpu/vulnerabilities/mds", "Mitigation: Clear CPU buffers; SMT vulnerable\n");
  put_link("/proc/self/ns/user", "user:[1]");
  outputs["/usr/bin/dpkg-query -W -f=${Version} qemu-system-x86"] = "1:10.0.2+ds-2+deb13u1~bpo12+1";
}

inline void FakeMachine::furnish_software() {
  const std::string qemu = "/usr/bin/qemu-system-x86_64";
  put(qemu, "", S_IFREG | 0755);
  outputs[qemu + " --version"] = "QEMU emulator version 10.0.2 (Debian 1:10.0.2)\nCopyright\n";
  outputs[qemu + " -machine help"] =
      "Supported machines are:\nmicrovm              microvm (i386)\nnone  empty\n";
  for (const char* name : {"mmdebstrap", "cpio", "zstd", "xz", "tar", "unshare", "openssl", "python3"})
    put(std::string("/usr/bin/") + name, "", S_IFREG | 0755);
  for (const char* name : {"mkfs.btrfs", "mke2fs", "depmod", "useradd"})
    put(std::string("/usr/sbin/") + name, "", S_IFREG | 0755);
  for (const char* name :
       {"space", "space-noded", "space-netd", "space-sandboxd", "space-control", "space-daemon"})
    put("/usr/lib/space/" + std::string(name), "", S_IFREG | 0755);
  put("/usr/lib/space/../share/space/images/build.sh", "", S_IFREG | 0755);
  put("/etc/passwd",
      "root:x:0:0::/root:/bin/sh\nspace-control:x:990:990::/:/\nspace-sandboxd:x:991:991::/:/\n"
      "space-netd:x:992:992::/:/\n");
  put("/etc/subuid", "me:100000:65536\n");
  put("/etc/space/space.toml", "memory_limit_mib = 4096\n");
}

inline void FakeMachine::furnish_platform() {
  const std::string state = "/var/lib/space", run = "/run/space";
  put("/root/.config/space/config.json", "{}", S_IFREG | 0600);
  put_folder("/var/cache/space");
  put_folder(state + "/images");
  put_folder(state + "/control", 0700, 990);
  put(state + "/control/control.db", "", S_IFREG | 0600, 990);
  put_folder(state + "/sandboxd", 0700, 991);
  put_folder(state + "/netd", 0700, 992);
  put(state + "/sandboxd/accelerator.json",
      R"({"boot_id":"this-boot","kvm_works":true,"reason":"it booted"})", S_IFREG | 0600, 991);
  put(state + "/pool.img", "", S_IFREG | 0600);
  facts(state + "/pool.img").bytes = 64ULL << 30;
  facts(state + "/pool.img").allocated_bytes = 4ULL << 30;
  put("/sys/block/loop0/loop/backing_file", state + "/pool.img\n");
  for (const char digit : {'a', 'b'}) {
    const std::string folder = state + "/pool/templates/" + std::string(64, digit);
    put(folder + "/manifest.json", R"({"name":"base","disk":{"size_mib":4096}})");
    put(folder + "/disk.raw", "");
    facts(folder + "/disk.raw").bytes = 4096ULL << 20;
    put(folder + "/vmlinuz",
        "\x7f"
        "ELF...");
    put(folder + "/initramfs.img", "070701...");
  }
  put(state + "/space.log",
      R"({"ts":"2027-01-15T07:59:00.000Z","event":"daemon died","daemon":"space-control"})"
      "\n");
  put(run + "/up.lock", "500\n");
  locks.insert(run + "/up.lock");
  put_folder(run + "/noded", 0751);
  put_folder(run + "/control", 02750, 990);
  put_folder(run + "/sandboxd", 0700, 991);
  put_folder(run + "/netd", 02750, 992);
  put(run + "/noded/noded.sock", "", S_IFSOCK | 0666);
  put(run + "/netd/netd.sock", "", S_IFSOCK | 0660, 992);
  put(run + "/control/node.sock", "", S_IFSOCK | 0660, 990);
  put_process(501, "space-noded", "/usr/lib/space/space-noded --run /run/space", 0, "/");
  put_process(502, "space-control", "/usr/lib/space/space-control --run /run/space", 990, "/");
  put_process(503, "space-sandboxd", "/usr/lib/space/space-sandboxd --run /run/space", 991, "/");
  put_process(504, "space-netd", "/usr/lib/space/space-netd --run /run/space", 992, "/");
  put_link("/proc/502/fd/9", "socket:[777]");
  put_process(600, "qemu-system-x86", "qemu-system-x86_64 -M microvm", 200017,
              "/space/run+space/i0000000000000000000");
}

}  // namespace space::cli::doctor

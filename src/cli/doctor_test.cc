// The table of broken set-ups: each row breaks a sound machine in one way and expects one finding, no more.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/doctor/facts.h"
#include "cli/doctor/fake_machine.h"
#include "cli/doctor/report.h"

namespace space::cli::doctor {
namespace {

using testing::HasSubstr;

Installation installation() {
  return {.key_file = "/root/.config/space/config.json"};
}

std::vector<Finding> not_good(const std::vector<Section>& sections) {
  std::vector<Finding> found;
  for (const Section& section : sections)
    for (const Finding& finding : section.findings)
      if (finding.verdict != Verdict::good) found.push_back(finding);
  return found;
}

std::string names_of(const std::vector<Finding>& findings) {
  std::string names;
  for (const Finding& finding : findings) names += "[" + finding.check + ": " + finding.seen + "]";
  return names;
}

struct Row {
  const char* name;
  std::string check;
  Verdict verdict;
  std::string says;  // in `seen`
  std::function<void(FakeMachine&, Installation&)> break_it;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

constexpr Verdict warn = Verdict::warning;
constexpr Verdict broken = Verdict::bad;
const std::string template_a = "/var/lib/space/pool/templates/" + std::string(64, 'a');
const std::string qemu = "/usr/bin/qemu-system-x86_64";

std::vector<Row> kernel_rows() {
  return {
      {"old kernel", "kernel", broken, "4.19",
       [](auto& m, auto&) { m.content("/proc/sys/kernel/osrelease") = "4.19.0-27-amd64\n"; }},
      {"no kvm", "kvm", warn, "no /dev/kvm", [](auto& m, auto&) { m.remove("/dev/kvm"); }},
      {"kvm is another file", "kvm", warn, "something else", [](auto& m, auto&) { m.put("/dev/kvm", ""); }},
      {"kvm boots nothing", "kvm", warn, "did not boot",
       [](auto& m, auto&) { m.replace("/var/lib/space/sandboxd/accelerator.json", "true", "false"); }},
      {"no btrfs", "btrfs", broken, "no btrfs",
       [](auto& m, auto&) { m.content("/proc/filesystems") = "nodev\tproc\n\text4\n"; }},
      {"no rules for the gateway", "gateway rules", broken, "no nft_tproxy",
       [](auto& m, auto&) {
         m.put("/lib/modules/6.1.0-28-amd64/modules.builtin",
               "kernel/net/netfilter/nf_tables.ko\nkernel/net/netfilter/nft_reject_inet.ko\n");
       }},
      {"no loop devices", "loop devices", broken, "missing",
       [](auto& m, auto&) { m.remove("/dev/loop-control"); }},
      {"no tun", "tun", broken, "missing", [](auto& m, auto&) { m.remove("/dev/net/tun"); }},
      {"tun is another device", "tun", broken, "something else",
       [](auto& m, auto&) { m.put_device("/dev/net/tun", 3); }},
      {"v2 controllers not delegated", "cgroups", broken, "memory, cpu",
       [](auto& m, auto&) { m.content("/sys/fs/cgroup/cgroup.controllers") = "cpuset pids\n"; }},
      {"v2 without pids", "cgroups", broken, "offers pids",
       [](auto& m, auto&) { m.content("/sys/fs/cgroup/cgroup.controllers") = "cpu memory\n"; }},
      {"memory controller off at boot", "cgroups", broken, "switched off at boot",
       [](auto& m, auto&) {
         m.content("/sys/fs/cgroup/cgroup.controllers") = "cpu pids\n";
         m.replace("/proc/cgroups", "memory\t0\t9\t1", "memory\t0\t9\t0");
       }},
      {"no control groups mounted", "cgroups", broken, "memory, pids, cpu",
       [](auto& m, auto&) {
         m.replace("/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n", "");
       }},
      {"v1 without memory", "cgroups", broken, "offers memory",
       [](auto& m, auto&) {
         m.replace(
             "/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
             "c /sys/fs/cgroup/pids cgroup rw,pids 0 0\nc /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n");
       }},
      {"control groups read-only", "cgroups", broken, "read-only",
       [](auto& m, auto&) { m.replace("/proc/self/mounts", "cgroup2 rw", "cgroup2 ro"); }},
      {"no network namespaces", "namespaces", broken, "no net namespaces",
       [](auto& m, auto&) { m.remove("/proc/self/ns/net"); }},
      {"network namespaces forbidden", "namespaces", broken, "at most 0 net",
       [](auto& m, auto&) { m.content("/proc/sys/user/max_net_namespaces") = "0\n"; }},
      {"SELinux", "confinement", warn, "SELinux",
       [](auto& m, auto&) { m.put("/sys/fs/selinux/enforce", "1"); }},
      {"AppArmor over QEMU", "confinement", warn, "qemu-system",
       [](auto& m, auto&) {
         m.put("/sys/kernel/security/apparmor/profiles",
               "man_filter (enforce)\n/usr/bin/qemu-system-x86_64 (enforce)\n");
       }},
  };
}

std::vector<Row> resource_rows() {
  return {
      {"little memory", "memory", broken, "683 MiB",
       [](auto& m, auto&) { m.replace("/proc/meminfo", "8000000 kB", "700000 kB"); }},
      {"strict overcommit", "overcommit", warn, "is 2",
       [](auto& m, auto&) { m.content("/proc/sys/vm/overcommit_memory") = "2\n"; }},
      {"huge pages", "huge pages", warn, "11.7 GiB",
       [](auto& m, auto&) {
         m.replace("/proc/meminfo", "HugePages_Total:       0", "HugePages_Total:    6000");
       }},
      {"little disk before the pool is made", "disk", broken, "only 5.0 GiB",
       [](auto& m, auto&) {
         m.state_disk->free_bytes = 5 * gib;
         m.remove("/var/lib/space");
         m.remove("/run/space");
         m.stop();
       }},
      {"little disk", "disk", broken, "only 1.0 GiB",
       [](auto& m, auto&) {
         m.state_disk->free_bytes = gib;
         m.facts("/var/lib/space/pool.img").allocated_bytes = 64 * gib;
       }},
      {"no inodes", "disk", broken, "3 files", [](auto& m, auto&) { m.state_disk->free_files = 3; }},
      {"few descriptors", "open files", warn, "only 256", [](auto& m, auto&) { m.descriptors = 256; }},
      {"no entropy", "entropy", warn, "20 bits",
       [](auto& m, auto&) { m.content("/proc/sys/kernel/random/entropy_avail") = "20\n"; }},
      {"clock at the epoch", "clock", broken, "1970-01-01", [](auto& m, auto&) { m.now = 100; }},
      {"clock went back", "clock", broken, "was written at",
       [](auto& m, auto&) { m.facts("/var/lib/space/control/control.db").modified_s = m.now + 86400; }},
  };
}

std::vector<Row> software_rows() {
  return {
      {"not root", "root", warn, "not root", [](auto& m, auto&) { m.effective_user = 1000; }},
      {"no QEMU", "qemu", broken, "missing", [](auto& m, auto&) { m.remove(qemu); }},
      {"QEMU not executable", "qemu", broken, "not an executable",
       [](auto& m, auto&) { m.facts(qemu).mode = S_IFREG | 0644; }},
      {"QEMU does not start", "qemu", broken, "does not start",
       [](auto& m, auto&) { m.outputs.erase(qemu + " --version"); }},
      {"old QEMU", "qemu", broken, "7.2.11",
       [](auto& m, auto&) { m.outputs[qemu + " --version"] = "QEMU emulator version 7.2.11 (Debian)\n"; }},
      {"QEMU without microvm", "qemu", broken, "without the microvm",
       [](auto& m, auto&) { m.outputs[qemu + " -machine help"] = "pc   Standard PC\n"; }},
      {"no mkfs.btrfs", "pool tools", broken, "mkfs.btrfs",
       [](auto& m, auto&) { m.remove("/usr/sbin/mkfs.btrfs"); }},
      {"no mmdebstrap, no zstd", "image tools", broken, "mmdebstrap, zstd",
       [](auto& m, auto&) {
         m.remove("/usr/bin/mmdebstrap");
         m.remove("/usr/bin/zstd");
       }},
      {"half an installation", "installation", broken, "space-sandboxd",
       [](auto& m, auto&) { m.remove("/usr/lib/space/space-sandboxd"); }},
      {"no recipes", "installation", broken, "recipes",
       [](auto& m, auto&) { m.remove("/usr/lib/space/../share/space/images/build.sh"); }},
      {"a daemon's user is gone", "users", broken, "no user space-sandboxd",
       [](auto& m, auto&) { m.replace("/etc/passwd", "space-sandboxd", "someone"); }},
      {"the daemons share a uid", "users", broken, "uid 990",
       [](auto& m, auto&) {
         m.replace("/etc/passwd", "space-sandboxd:x:991", "space-sandboxd:x:990");
         m.remove("/var/lib/space/sandboxd");
       }},
      {"a user in the range of the VMs", "uid range", broken, "bob",
       [](auto& m, auto&) { m.content("/etc/passwd") += "bob:x:200123:1::/:/\n"; }},
      {"subordinate uids in the range", "uid range", warn, "'me'",
       [](auto& m, auto&) { m.content("/etc/subuid") = "me:165536:65536\n"; }},
      {"settings file malformed", "settings file", broken, "line 1",
       [](auto& m, auto&) { m.content("/etc/space/space.toml") = "state = \n"; }},
      {"settings file with an unknown key", "settings file", broken, "unknown setting 'stat'",
       [](auto& m, auto&) { m.content("/etc/space/space.toml") = "stat = 1\n"; }},
      {"settings file open to all", "settings file", broken, "others than root",
       [](auto& m, auto&) { m.facts("/etc/space/space.toml").mode |= 022; }},
  };
}

std::vector<Row> hardening_rows() {
  const auto sysctl = [](const char* name, const char* check, const char* path, const char* value) {
    return Row{name, check, warn, std::string("is ") + value, [=](auto& m, auto&) {
                 m.content(std::string("/proc/sys/") + path) = std::string(value) + "\n";
               }};
  };
  const std::string dpkg = "/usr/bin/dpkg-query -W -f=${Version} qemu-system-x86";
  return {
      {"KSM merges pages", "KSM", broken, "is 1",
       [](auto& m, auto&) { m.content("/sys/kernel/mm/ksm/run") = "1\n"; }},
      {"swap on a partition", "swap", warn, "/dev/vda2",
       [](auto& m, auto&) { m.content("/proc/swaps") += "/dev/vda2 partition 1000 0 -2\n"; }},
      {"swap on a volume that is not encrypted", "swap", warn, "/dev/dm-0",
       [](auto& m, auto&) {
         m.content("/proc/swaps") += "/dev/dm-0 partition 1000 0 -2\n";
         m.put("/sys/block/dm-0/dm/uuid", "LVM-abc\n");
       }},
      {"threads share cores", "SMT", warn, "two threads",
       [](auto& m, auto&) { m.content("/sys/devices/system/cpu/smt/active") = "1\n"; }},
      sysctl("BPF for all", "unprivileged BPF", "kernel/unprivileged_bpf_disabled", "0"),
      sysctl("userfaultfd for all", "userfaultfd", "vm/unprivileged_userfaultfd", "1"),
      sysctl("io_uring for all", "io_uring", "kernel/io_uring_disabled", "0"),
      sysctl("addresses for all", "kernel addresses", "kernel/kptr_restrict", "0"),
      sysctl("dmesg for all", "kernel log", "kernel/dmesg_restrict", "0"),
      sysctl("ptrace within a uid", "ptrace", "kernel/yama/ptrace_scope", "0"),
      {"a CPU flaw without mitigation", "CPU flaws", warn, "vulnerable: meltdown",
       [](auto& m, auto&) {
         m.content("/sys/devices/system/cpu/vulnerabilities/meltdown") = "Vulnerable; PTI disabled\n";
       }},
      {"a CPU flaw under KVM only", "CPU flaws", warn, "vulnerable: itlb_multihit",
       [](auto& m, auto&) {
         m.put("/sys/devices/system/cpu/vulnerabilities/itlb_multihit", "KVM: Vulnerable\n");
       }},
      {"QEMU before 10.0", "QEMU fixes", warn, "1:8.2.2",
       [=](auto& m, auto&) { m.outputs[dpkg] = "1:8.2.2+ds-1"; }},
      {"QEMU before 10.0 and not of Debian", "QEMU fixes", warn, "9.2.0 is older",
       [=](auto& m, auto&) {
         m.outputs.erase(dpkg);
         m.outputs[qemu + " --version"] = "QEMU emulator version 9.2.0\n";
       }},
      {"no Landlock", "Landlock", warn, "none", [](auto& m, auto&) { m.abi = 0; }},
      {"no user namespaces", "user namespaces", warn, "none",
       [](auto& m, auto&) { m.remove("/proc/self/ns/user"); }},
      {"user namespaces forbidden", "user namespaces", warn, "at most 0",
       [](auto& m, auto&) { m.content("/proc/sys/user/max_user_namespaces") = "0\n"; }},
  };
}

std::vector<Row> folder_rows() {
  const std::string state = "/var/lib/space", run = "/run/space";
  return {
      {"state on a read-only disk", "file systems", broken, "read-only",
       [](auto& m, auto&) { m.replace("/proc/self/mounts", "/ ext4 rw", "/ ext4 ro"); }},
      {"state in memory", "file systems", warn, "tmpfs",
       [](auto& m, auto&) {
         m.content("/proc/self/mounts") +=
             "t /var/lib tmpfs rw 0 0\n/dev/loop0 /var/lib/space/pool btrfs rw 0 0\n";
         m.replace("/proc/self/mounts", "/dev/loop0 /var/lib/space/pool btrfs rw,noatime 0 0\n", "");
       }},
      {"state over the network", "file systems", warn, "nfs4",
       [](auto& m, auto&) { m.content("/proc/self/mounts") += "s:/x /var/lib nfs4 rw 0 0\n"; }},
      {"a closed folder on the way", "way to folders", broken, "/var/lib is closed",
       [](auto& m, auto&) { m.facts("/var/lib").mode = S_IFDIR | 0700; }},
      {"run path too long", "run path", broken, "at most 61",
       [](auto& m, auto& i) {
         i.directories.run = "/run/" + std::string(60, 'x');
         m.locks.clear();
         m.locks.insert(i.directories.run + "/up.lock");
         for (int pid : {501, 502, 503, 504})
           m.content("/proc/" + std::to_string(pid) + "/cmdline") += '\0' + i.directories.run;
         m.put(i.directories.run + "/noded/noded.sock", "", S_IFSOCK | 0666);
         m.put(i.directories.run + "/control/node.sock", "", S_IFSOCK | 0660);
         m.put(i.directories.run + "/netd/netd.sock", "", S_IFSOCK | 0660);
       }},
      {"state folder of another user", "state folder", broken, "uid 1000",
       [=](auto& m, auto&) { m.facts(state).uid = 1000; }},
      {"state folder open to all", "state folder", broken, "777",
       [=](auto& m, auto&) { m.facts(state).mode = S_IFDIR | 0777; }},
      {"images open to a group", "images", broken, "775",
       [=](auto& m, auto&) { m.facts(state + "/images").mode = S_IFDIR | 0775; }},
      {"image cache of another user", "image cache", broken, "uid 1000",
       [](auto& m, auto&) { m.facts("/var/cache/space").uid = 1000; }},
      {"database of root", "space-control files", broken, "control.db belongs to uid 0",
       [=](auto& m, auto&) { m.facts(state + "/control/control.db").uid = 0; }},
      {"journal folder open", "space-sandboxd files", broken, "755",
       [=](auto& m, auto&) { m.facts(state + "/sandboxd").mode = S_IFDIR | 0755; }},
      {"policies open", "space-netd files", broken, "755",
       [=](auto& m, auto&) { m.facts(state + "/netd").mode = S_IFDIR | 0755; }},
      {"run folder from before the boot", "run folder", warn, "before the last boot",
       [=](auto& m, auto&) {
         m.facts(run + "/up.lock").modified_s = m.now - 10 * 86400;
         m.stop();
       }},
      {"run folder open to all", "run modes", broken, "777",
       [=](auto& m, auto&) { m.facts(run).mode = S_IFDIR | 0777; }},
      {"API key readable by others", "API key file", broken, "644",
       [](auto& m, auto& i) { m.facts(i.key_file).mode = S_IFREG | 0644; }},
  };
}

std::vector<Row> pool_rows() {
  const std::string image = "/var/lib/space/pool.img";
  return {
      {"pool file removed under the pool", "pool file", broken, "was removed",
       [=](auto& m, auto&) { m.remove(image); }},
      {"pool file cut", "pool file", broken, "no disk image",
       [=](auto& m, auto&) { m.facts(image).bytes = 0; }},
      {"pool file readable by others", "pool file", broken, "644",
       [=](auto& m, auto&) { m.facts(image).mode = S_IFREG | 0644; }},
      {"up, and not mounted", "pool mount", broken, "not mounted",
       [](auto& m, auto&) {
         m.replace("/proc/self/mounts", "/dev/loop0 /var/lib/space/pool btrfs rw,noatime 0 0\n", "");
         m.remove("/sys/block/loop0");
       }},
      {"something else mounted", "pool mount", broken, "tmpfs",
       [](auto& m, auto&) { m.content("/proc/self/mounts") += "t /var/lib/space/pool tmpfs rw 0 0\n"; }},
      {"pool read-only", "pool mount", broken, "read-only",
       [](auto& m, auto&) { m.replace("/proc/self/mounts", "btrfs rw", "btrfs ro"); }},
      {"mounted twice", "pool mount", broken, "2 things",
       [](auto& m, auto&) {
         m.content("/proc/self/mounts") += "/dev/loop0 /var/lib/space/pool btrfs rw 0 0\n";
       }},
      {"two loop devices", "pool device", broken, "/dev/loop7",
       [=](auto& m, auto&) { m.put("/sys/block/loop7/loop/backing_file", image + "\n"); }},
      {"pool full", "pool room", broken, "512 MiB of",
       [](auto& m, auto&) { m.pool_disk->free_bytes = 512 * mib; }},
      {"pool nearly full", "pool room", warn, "4.0 GiB of",
       [](auto& m, auto&) { m.pool_disk->free_bytes = 4 * gib; }},
      {"disk below the pool nearly full", "pool promise", warn, "60.0 GiB",
       [](auto& m, auto&) { m.state_disk->free_bytes = 3 * gib; }},
      {"template without a kernel", "template files", broken, "vmlinuz",
       [](auto& m, auto&) { m.remove(template_a + "/vmlinuz"); }},
      {"template's disk cut", "template files", broken, "disk.raw",
       [](auto& m, auto&) { m.facts(template_a + "/disk.raw").bytes = 1; }},
      {"template's initramfs overwritten", "template files", broken, "initramfs",
       [](auto& m, auto&) { m.content(template_a + "/initramfs.img") = "zzz"; }},
      {"template's manifest damaged", "template files", broken, "manifest.json",
       [](auto& m, auto&) { m.content(template_a + "/manifest.json") = "{"; }},
  };
}

std::vector<Row> daemon_rows() {
  const std::string dead =
      R"({"ts":"2027-01-15T07:59:30.000Z","event":"daemon died","daemon":"space-control"})"
      "\n";
  return {
      {"nothing is up", "supervisor", broken, "no 'space up'", [](auto& m, auto&) { m.stop(); }},
      {"a daemon is missing", "daemons", broken, "space-sandboxd",
       [](auto& m, auto&) { m.remove("/proc/503"); }},
      {"a daemon restarts again and again", "restarts", broken, "3 times",
       [=](auto& m, auto&) { m.content("/var/lib/space/space.log") += dead + dead; }},
      {"an older build runs", "versions", warn, "space-control",
       [](auto& m, auto&) { m.put_link("/proc/502/exe", "/usr/lib/space/space-control (deleted)"); }},
      {"socket missing", "sockets", broken, "missing",
       [](auto& m, auto&) { m.remove("/run/space/noded/noded.sock"); }},
      {"socket open to all", "sockets", broken, "666",
       [](auto& m, auto&) { m.facts("/run/space/control/node.sock").mode = S_IFSOCK | 0666; }},
      {"socket closed to its group", "sockets", broken, "600",
       [](auto& m, auto&) { m.facts("/run/space/control/node.sock").mode = S_IFSOCK | 0600; }},
      {"port taken", "port", broken, "'python3' (process 700)",
       [](auto& m, auto&) {
         m.remove("/proc/502/fd/9");
         m.put_process(700, "python3", "python3 -m http.server", 1000, "/");
         m.put_link("/proc/700/fd/3", "socket:[777]");
       }},
      {"API beyond loopback", "port", warn, "beyond loopback",
       [](auto& m, auto&) { m.replace("/proc/net/tcp", "0100007F:0BB8", "00000000:0BB8"); }},
      {"listen is no address", "port", broken, "nowhere", [](auto&, auto& i) { i.listen = "nowhere"; }},
      {"a VM that belongs to nobody", "leftovers", broken, "process 601",
       [](auto& m, auto&) { m.put_process(601, "qemu-system-x86", "qemu", 200018, "/user.slice"); }},
      {"huge log", "log size", warn, "2.0 GiB",
       [](auto& m, auto&) { m.facts("/var/lib/space/space.log").bytes = 2 * gib; }},
  };
}

class BrokenSetUp : public testing::TestWithParam<Row> {};

TEST_P(BrokenSetUp, IsFoundExplainedAndNothingElse) {
  const Row& row = GetParam();
  FakeMachine machine;
  Installation told = installation();
  ASSERT_EQ(names_of(not_good(examine(machine, told))), "") << "the machine is sound before it is broken";
  row.break_it(machine, told);
  auto found = not_good(examine(machine, told));
  // A machine where nothing is up says so too; that is not what these rows are about.
  if (row.check != "supervisor" && !machine.locked(told.directories.run + "/up.lock"))
    std::erase_if(found, [](const Finding& f) { return f.check == "supervisor" || f.check == "pool file"; });
  ASSERT_EQ(found.size(), 1u) << names_of(found);
  EXPECT_EQ(found[0].check, row.check);
  EXPECT_EQ(found[0].verdict, row.verdict);
  EXPECT_THAT(found[0].seen, HasSubstr(row.says));
  EXPECT_NE(found[0].means, "");
  EXPECT_NE(found[0].advice, "");
}

std::vector<Row> all_rows() {
  std::vector<Row> rows;
  for (const auto& part : {kernel_rows(), resource_rows(), software_rows(), hardening_rows(), folder_rows(),
                           pool_rows(), daemon_rows()})
    rows.insert(rows.end(), part.begin(), part.end());
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Table, BrokenSetUp, testing::ValuesIn(all_rows()), [](const auto& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return c == '\'' || c == ','; });
  std::ranges::replace_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

TEST(Doctor, TheTableIsLongAndBreaksEveryCheck) {
  EXPECT_GE(all_rows().size(), 28u);
  std::set<std::string> tested;
  for (const Row& row : all_rows()) tested.insert(row.check);
  for (const Section& section : examine(FakeMachine(), installation()))
    for (const Finding& finding : section.findings)
      EXPECT_TRUE(tested.contains(finding.check)) << "no row breaks " << finding.check;
}

TEST(Doctor, AMachineBeforeTheFirstUpHasWarningsAndOneThingToDo) {
  FakeMachine machine;
  machine.stop();
  for (const char* path : {"/var/lib/space", "/run/space", "/var/cache/space", "/etc/space", "/root/.config"})
    machine.remove(path);
  machine.content("/etc/passwd") = "root:x:0:0::/root:/bin/sh\n";
  for (const Finding& finding : not_good(examine(machine, installation())))
    EXPECT_THAT(finding.advice, HasSubstr("sudo space up -d")) << finding.check;
}

TEST(Doctor, SandboxesLeftWithoutThePlatformAreCounted) {
  FakeMachine machine;
  machine.locks.clear();
  for (int pid : {501, 502, 503, 504}) machine.remove("/proc/" + std::to_string(pid));
  machine.content("/proc/net/tcp").clear();
  EXPECT_THAT(names_of(not_good(examine(machine, installation()))),
              HasSubstr("1 sandboxes run without the platform"));
}

TEST(Doctor, AModuleThatCanBeLoadedIsAsGoodAsOneThatIs) {
  FakeMachine machine;
  machine.content("/proc/filesystems") = "\text4\n";
  machine.put("/lib/modules/6.1.0-28-amd64/modules.dep",
              "kernel/fs/btrfs/btrfs.ko: kernel/lib/raid6_pq.ko\n"
              "kernel/net/netfilter/nf_tables.ko:\nkernel/net/netfilter/nft_tproxy.ko:\n");
  machine.put("/lib/modules/6.1.0-28-amd64/modules.builtin", "kernel/net/netfilter/nft_reject_inet.ko\n");
  EXPECT_EQ(names_of(not_good(examine(machine, installation()))), "");
}

TEST(Doctor, WhatAKernelLacksNeedsNoHardening) {
  FakeMachine machine;
  for (const char* path :
       {"/sys/kernel/mm/ksm", "/proc/swaps", "/sys/devices/system/cpu/smt", "/proc/sys/kernel/yama",
        "/proc/sys/kernel/io_uring_disabled", "/proc/sys/kernel/unprivileged_bpf_disabled",
        "/proc/sys/vm/unprivileged_userfaultfd", "/sys/devices/system/cpu/vulnerabilities"})
    machine.remove(path);
  EXPECT_EQ(names_of(not_good(examine(machine, installation()))), "");
}

TEST(Doctor, EncryptedSwapAndSwapInMemoryAreGood) {
  FakeMachine machine;
  machine.content("/proc/swaps") += "/dev/dm-1 partition 1000 0 -2\n/dev/zram0 partition 1000 0 100\n";
  machine.put("/sys/block/dm-1/dm/uuid", "CRYPT-PLAIN-swap\n");
  EXPECT_EQ(names_of(not_good(examine(machine, installation()))), "");
}

TEST(Doctor, AnOldQemuIsSaidToLackWhatCameLater) {
  FakeMachine machine;
  const auto means = [&](const char* version) {
    machine.outputs["/usr/bin/dpkg-query -W -f=${Version} qemu-system-x86"] = version;
    const auto found = not_good(examine(machine, installation()));
    return found.empty() ? "" : found.front().means;
  };
  EXPECT_THAT(means("1:8.2.2+ds-1"), HasSubstr("CVE-2024-3446"));
  EXPECT_THAT(means("1:8.2.2+ds-1"), testing::Not(HasSubstr("CVE-2023-6693")));
  EXPECT_THAT(means("1:9.2.0+ds-1"), HasSubstr("made for 10.0"));
  EXPECT_EQ(means("1:10.0.0~rc1+ds-2"), "");
  EXPECT_EQ(means("1:11.0.0+ds-1"), "");
}

TEST(Doctor, HybridControlGroupsAreGood) {
  FakeMachine machine;
  machine.replace(
      "/proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n",
      "c /sys/fs/cgroup/memory cgroup rw,memory 0 0\nc /sys/fs/cgroup/pids cgroup rw,pids 0 0\n"
      "c /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\nc /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
  EXPECT_EQ(names_of(not_good(examine(machine, installation()))), "");
}

TEST(Doctor, AReportHasEveryFindingAndCounts) {
  const std::vector<Section> sections = {
      {"Kernel", {good("kvm", "boots guests"), bad("tun", "missing", "none", "modprobe tun")}},
      {"Pool", {warning("pool room", "4 MiB", "soon", "space kill ID")}}};
  const std::string text = to_report(sections, false);
  for (const char* part : {"Kernel\n", "ok    kvm", "BAD   tun", "-> modprobe tun", "warn  pool room",
                           "1 good, 1 warnings, 1 bad"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_EQ(to_json(sections).as_array().size(), 3u);
  EXPECT_EQ(to_json(sections).as_array()[1].as_object().at("verdict").as_string(), "bad");
}

TEST(Facts, MountsAreTheLongestAndLast) {
  FakeMachine machine;
  machine.put("/proc/self/mounts",
              "a / ext4 rw 0 0\nb /x\\040y ext4 ro,noatime 0 0\nc /x ext4 rw 0 0\nd / xfs rw 0 0\nbad\n");
  const auto all = mounts(machine);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(mount_of(all, "/x y/z")->source, "b");
  EXPECT_TRUE(all[1].read_only());
  EXPECT_EQ(mount_of(all, "/xy")->source, "d");
  EXPECT_EQ(mount_of(all, "/x/1")->source, "c");
  EXPECT_EQ(mounted_at(all, "/q"), nullptr);
}

}  // namespace
}  // namespace space::cli::doctor

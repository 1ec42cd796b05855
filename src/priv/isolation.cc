#include "priv/isolation.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "base/fd.h"
#include "priv/mountinfo.h"

namespace space::priv {
namespace {

using State = LayerReading::State;

constexpr std::size_t proc_bytes_max = 1 << 20;
constexpr std::size_t detail_bytes_max = 95;

// One process as /proc shows it.
class Process {
 public:
  explicit Process(pid_t pid) : folder_(fmt::format("/proc/{}/", pid)), status_(text("status")) {}

  std::string text(const char* file) const {
    return read_file(folder_ + file, proc_bytes_max).value_or(std::string());
  }
  std::string_view status(std::string_view key) const { return status_value(status_, key); }
  std::string link(const std::string& name) const {
    char target[512];
    const ssize_t size = ::readlink((folder_ + name).c_str(), target, sizeof target);
    return size < 0 ? std::string() : std::string(target, static_cast<std::size_t>(size));
  }
  int filters() const {
    const std::string_view value = status("Seccomp_filters");
    int count = 0;
    std::from_chars(value.data(), value.data() + value.size(), count);
    return count;
  }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
  std::string status_;
};

LayerReading reading(const char* layer, bool active, std::string detail) {
  if (detail.size() > detail_bytes_max) detail.resize(detail_bytes_max);
  return {layer, active ? State::active : State::off, std::move(detail)};
}

LayerReading descriptors_of(const Process& process) {
  const std::string folder = process.folder() + "fd";
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()), ::closedir);
  if (!open) return reading("descriptors", false, "cannot be listed");
  int count = 0;
  std::string stray;
  while (const dirent* entry = ::readdir(open.get())) {
    if (entry->d_name[0] == '.') continue;
    ++count;
    const std::string target = process.link(std::string("fd/") + entry->d_name);
    if (!target.empty() && !is_vmm_descriptor(target)) stray = target;
  }
  return reading("descriptors", count > 0 && stray.empty(),
                 stray.empty() ? fmt::format("{} open, each of a known kind", count) : "has " + stray);
}

LayerReading cgroups_of(const Process& process, const IsolationSubject& subject) {
  const std::string text = process.text("cgroup");
  const std::size_t wanted = subject.cgroups->hierarchies();
  std::size_t found = 0;
  const std::string name = subject.cgroups->name_of(subject.id) + "\n";
  for (std::size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += name.size()) ++found;
  return reading("cgroups", found == wanted,
                 fmt::format("in its own group of {} of {} hierarchies", found, wanted));
}

LayerReading rlimits_of(const Process& process) {
  const std::string text = process.text("limits");
  const auto has = [&](std::string_view name, std::string_view value) {
    const auto at = text.find(name);
    if (at == std::string::npos) return false;
    const auto start = text.find_first_not_of(' ', at + name.size());
    return start != std::string::npos && std::string_view(text).substr(start).starts_with(value) &&
           text[start + value.size()] == ' ';
  };
  const bool active = has("Max core file size", "0") && has("Max open files", "512") &&
                      has("Max locked memory", "65536") && has("Max msgqueue size", "0");
  return reading("rlimits", active,
                 active ? "no core, 512 descriptors, bounded file size" : "not those of a jail");
}

LayerReading namespaces_of(const Process& process, const Process& self) {
  std::string shared;
  for (const char* kind : {"mnt", "ipc", "uts", "net", "cgroup", "pid"}) {
    const std::string name = std::string("ns/") + kind;
    if (process.link(name).empty() || process.link(name) == self.link(name))
      shared += std::string(" ") + kind;
  }
  return reading("namespaces", shared.empty(),
                 shared.empty() ? "own mnt ipc uts net cgroup pid" : "shares" + shared);
}

LayerReading root_of(const Process& process) {
  const std::string mounts = process.text("mountinfo");
  const auto count = std::ranges::count(mounts, '\n');
  constexpr long bundle_and_three_files = 4;
  const bool active = count == bundle_and_three_files && all_read_only(mounts);
  return reading("root", active,
                 fmt::format("{} mounts, {}", count, active ? "all read-only" : "not those of a jail"));
}

LayerReading user_namespace_of(const Process& process, const Process& self, const IsolationSubject& subject) {
  if (std::ranges::find(subject.worn.missing, "user namespace") != subject.worn.missing.end())
    return {"user namespace", State::unavailable, "this kernel gives none"};
  const bool own = !process.link("ns/user").empty() && process.link("ns/user") != self.link("ns/user");
  const std::string map = process.text("uid_map");
  const bool single = std::ranges::count(map, '\n') == 1 && map.ends_with(" 1\n");
  return reading("user namespace", own && single, own ? "own, one uid mapped" : "the host's");
}

LayerReading identity_of(const Process& process, const IsolationSubject& subject) {
  const std::string four = fmt::format("{0}\t{0}\t{0}\t{0}", subject.uid);
  const bool active = subject.uid != 0 && process.status("Uid") == four && process.status("Gid") == four &&
                      process.status("Groups").find_first_not_of(" \t") == std::string_view::npos;
  return reading(
      "identity", active,
      active ? fmt::format("uid {}, no groups", subject.uid) : fmt::format("uid {}", process.status("Uid")));
}

LayerReading capabilities_of(const Process& process) {
  std::string held;
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"})
    if (process.status(set) != "0000000000000000") held += std::string(" ") + set;
  return reading("capabilities", held.empty(),
                 held.empty() ? "none, and none to be had" : "not empty:" + held);
}

// The files of a process that may be dumped belong to its own uid.
LayerReading dumpable_of(const Process& process, const IsolationSubject& subject) {
  struct stat status{};
  const bool known = ::stat((process.folder() + "environ").c_str(), &status) == 0;
  const bool active = known && status.st_uid != subject.uid;
  return reading("not dumpable", active, active ? "its memory belongs to root" : "its uid may trace it");
}

LayerReading landlock_of(const IsolationSubject& subject) {
  if (std::ranges::find(subject.worn.missing, "landlock") != subject.worn.missing.end())
    return {"landlock", State::unavailable, "this kernel has none"};
  const int abi = subject.worn.landlock_abi;
  return reading(
      "landlock", abi > 0,
      abi > 0 ? fmt::format("ABI {}, refused a readable file at its start", abi) : "refused nothing");
}

LayerReading seccomp_of(const Process& process, int inherited) {
  const bool active = process.status("Seccomp") == "2" && process.filters() > inherited;
  return reading("seccomp", active,
                 fmt::format("mode {}, {} filters, {} of them inherited", process.status("Seccomp"),
                             process.filters(), inherited));
}

LayerReading qemu_sandbox_of(const Process& process, int inherited) {
  const bool active = process.filters() > inherited + 1;
  return reading("qemu sandbox", active, active ? "its own filter on top" : "no filter of its own");
}

}  // namespace

std::vector<LayerReading> read_isolation(const IsolationSubject& subject) {
  const Process process(subject.pid), self(::getpid());
  return {descriptors_of(process),
          cgroups_of(process, subject),
          rlimits_of(process),
          namespaces_of(process, self),
          root_of(process),
          user_namespace_of(process, self, subject),
          identity_of(process, subject),
          capabilities_of(process),
          reading("no_new_privs", process.status("NoNewPrivs") == "1",
                  fmt::format("NoNewPrivs {}", process.status("NoNewPrivs"))),
          dumpable_of(process, subject),
          landlock_of(subject),
          seccomp_of(process, self.filters()),
          qemu_sandbox_of(process, self.filters())};
}

std::string_view status_value(std::string_view status, std::string_view key) {
  while (!status.empty()) {
    const auto line = status.substr(0, status.find('\n'));
    status.remove_prefix(std::min(status.size(), line.size() + 1));
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') continue;
    const auto start = line.find_first_not_of(" \t", key.size() + 1);
    return start == std::string_view::npos ? std::string_view() : line.substr(start);
  }
  return {};
}

bool all_read_only(std::string_view mountinfo) {
  const auto mounts = parse_mountinfo(mountinfo);
  return !mounts.empty() && std::ranges::all_of(mounts, [](const Mount& mount) {
    return has_option(mount.mount_options, "ro");
  });
}

namespace {

// Of a snapshot's disk, for a VM that compares two: "/…/#1234 (deleted)".
bool is_unnamed_copy(std::string_view target) {
  const std::string_view name = target.substr(target.rfind('/') + 1);
  return target.starts_with('/') && name.starts_with('#') && name.ends_with(" (deleted)");
}

}  // namespace

bool is_vmm_descriptor(std::string_view target) {
  constexpr std::string_view kinds[] = {"socket:[", "pipe:[", "anon_inode:"};
  constexpr std::string_view files[] = {"/dev/null", "/dev/net/tun", "/dev/kvm",
                                        "/memory",   "/kernel",      "/initramfs"};
  return std::ranges::any_of(kinds, [&](std::string_view kind) { return target.starts_with(kind); }) ||
         std::ranges::find(files, target) != std::end(files) || target.ends_with("/disk.raw") ||
         is_unnamed_copy(target);
}

}  // namespace space::priv

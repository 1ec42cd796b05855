#include "cli/doctor.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/fd.h"
#include "cli/api_client.h"
#include "cli/output.h"

namespace space::cli {

namespace {

constexpr std::string_view install_hint = "sudo ./tools/dev quickstart installs all that is missing";

Finding good(std::string check, std::string seen) {
  return {std::move(check), Verdict::good, std::move(seen), ""};
}
Finding bad(std::string check, std::string seen, std::string advice) {
  return {std::move(check), Verdict::bad, std::move(seen), std::move(advice)};
}
Finding warning(std::string check, std::string seen, std::string advice) {
  return {std::move(check), Verdict::warning, std::move(seen), std::move(advice)};
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

Finding check_root() {
  return ::geteuid() == 0 ? good("root", "running as root")
                          : warning("root", "not root: some checks see less", "sudo space doctor");
}

Finding check_file(const std::string& name, const std::string& path, std::string_view why) {
  return exists(path) ? good(name, "present") : bad(name, "missing", std::string(why));
}

Finding check_filesystem(const std::string& root) {
  const auto text = read_file(root + "/proc/filesystems", 65536);
  if (text && text->find("btrfs") != std::string::npos) return good("btrfs", "the kernel knows it");
  return bad("btrfs", "the kernel has no btrfs",
             "load it: modprobe btrfs (every snapshot is a btrfs snapshot)");
}

Finding check_loop(const std::string& root) {
  return check_file("loop devices", root + "/dev/loop-control",
                    "load them: modprobe loop (the pool is a file on a loop device)");
}

Finding check_tun(const std::string& root) {
  return check_file("tun", root + "/dev/net/tun", "load it: modprobe tun (each sandbox has a tap device)");
}

Finding check_kvm(const std::string& root) {
  if (exists(root + "/dev/kvm"))
    return good("kvm", "present; whether it really boots a guest is probed at the first start");
  return warning("kvm", "no /dev/kvm: sandboxes run under emulation (TCG), about ten times slower",
                 "enable virtualisation in the firmware or nested virtualisation on the host");
}

Finding check_qemu(const std::string& root) {
  return check_file(
      "qemu", root + "/usr/bin/qemu-system-x86_64",
      "install qemu-system-x86 8.2 or newer (10.0 from bookworm-backports): " + std::string(install_hint));
}

Finding check_program(const std::string& root, const std::string& name) {
  for (const char* folder : {"/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"})
    if (exists(root + folder + name)) return good(name, "installed");
  return bad(name, "not installed", std::string(install_hint));
}

Finding check_cgroups(const std::string& root) {
  const auto text = read_file(root + "/proc/cgroups", 65536);
  if (text && text->find("memory") != std::string::npos && text->find("pids") != std::string::npos)
    return good("cgroups", "memory and pids controllers present");
  return bad("cgroups", "the kernel has no memory or pids controller",
             "boot with cgroup_enable=memory; sandboxes must be bounded");
}

Finding check_users(const std::string& root) {
  const auto text = read_file(root + "/etc/passwd", 1024 * 1024);
  if (text && text->find("\nspace-control:") != std::string::npos &&
      text->find("\nspace-sandboxd:") != std::string::npos)
    return good("users", "space-control and space-sandboxd exist");
  return warning("users", "the daemons' users do not exist yet", "'sudo space up' makes them");
}

Finding check_id_range(const std::string& root) {
  const auto text = read_file(root + "/etc/passwd", 1024 * 1024);
  if (!text) return bad("uid range", "/etc/passwd cannot be read", "run as root");
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    const std::string_view line(text->data() + at, end - at);
    at = end + 1;
    const auto first = line.find(':');
    const auto second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    unsigned uid = 0;
    std::from_chars(line.data() + second + 1, line.data() + line.size(), uid);
    if (uid >= 200000 && uid <= 265535)
      return bad("uid range",
                 fmt::format("user '{}' lies in 200000-265535, the range of the virtual machines",
                             line.substr(0, first)),
                 "give that user another uid");
  }
  return good("uid range", "200000-265535 is free");
}

std::uint64_t meminfo_kib(const std::string& text, std::string_view key) {
  const auto at = text.find(key);
  if (at == std::string::npos) return 0;
  const auto digits = text.find_first_of("0123456789", at);
  std::uint64_t value = 0;
  if (digits != std::string::npos) std::from_chars(text.data() + digits, text.data() + text.size(), value);
  return value;
}

Finding check_memory(const std::string& root) {
  const auto text = read_file(root + "/proc/meminfo", 65536);
  const std::uint64_t mib = text ? meminfo_kib(*text, "MemAvailable:") / 1024 : 0;
  if (mib >= 1024) return good("memory", fmt::format("{} MiB available", mib));
  return bad("memory", fmt::format("only {} MiB available", mib),
             "a sandbox of the default shape needs about 900 MiB; stop something or add memory");
}

Finding check_space(const std::string& root, const Directories& directories) {
  struct statvfs info{};
  std::string path = root + directories.state;
  while (path.size() > 1 && !exists(path)) path = path.substr(0, path.rfind('/'));
  if (path.empty()) path = "/";
  if (::statvfs(path.c_str(), &info) != 0)
    return bad("disk", "free space cannot be read", "check the state directory");
  const std::uint64_t gib = info.f_bavail * info.f_frsize >> 30;
  if (gib >= 8) return good("disk", fmt::format("{} GiB free for {}", gib, directories.state));
  return bad("disk", fmt::format("only {} GiB free for {}", gib, directories.state),
             "free at least 8 GiB, or move state in /etc/space/space.toml");
}

Finding check_pool(const std::string& root, const Directories& directories) {
  if (!exists(root + directories.state + "/pool.img"))
    return warning("pool", "not made yet", "'sudo space up' makes it");
  const auto mounts = read_file(root + "/proc/self/mounts", 4 * 1024 * 1024);
  if (mounts && mounts->find(" " + directories.state + "/pool btrfs ") != std::string::npos)
    return good("pool", "mounted");
  return warning("pool", "made, not mounted", "'sudo space up' mounts it");
}

Finding check_key(const CommonOptions& common) {
  const auto settings = load_settings(common.api_url, common.api_key);
  if (settings) return good("API key", "found");
  return bad("API key", "none", settings.error().message);
}

}  // namespace

std::vector<Finding> examine_machine(const std::string& root, const Directories& directories) {
  std::vector<Finding> findings = {check_root(),
                                   check_kvm(root),
                                   check_qemu(root),
                                   check_filesystem(root),
                                   check_loop(root),
                                   check_tun(root),
                                   check_cgroups(root),
                                   check_users(root),
                                   check_id_range(root),
                                   check_memory(root),
                                   check_space(root, directories),
                                   check_pool(root, directories)};
  for (const char* program : {"mkfs.btrfs", "mke2fs", "mmdebstrap"})
    findings.push_back(check_program(root, program));
  return findings;
}

std::vector<Finding> examine_installation(const CommonOptions& common, const Directories&) {
  std::vector<Finding> findings = {check_key(common)};
  auto settings = load_settings(common.api_url, common.api_key);
  if (!settings) return findings;
  const ApiClient api(*std::move(settings));
  const auto node = run_loop(api.call("GET", "/v1/node", std::nullopt, Millis(5'000)));
  if (!node) {
    findings.push_back(
        bad("API", node.error().message, "sudo space up -d; then look at the end of the log it names"));
    return findings;
  }
  findings.push_back(good("API", "answers, node connected"));
  if (node->body.is_object()) {
    const auto accelerator = text_member(node->body.get_object(), "accelerator");
    if (accelerator && *accelerator) findings.push_back(good("accelerator", **accelerator));
  }
  const auto templates = run_loop(api.call("GET", "/v1/templates", std::nullopt, Millis(5'000)));
  const bool any = templates && templates->body.is_array() && !templates->body.get_array().empty();
  findings.push_back(any ? good("template", fmt::format("{} on the node", templates->body.get_array().size()))
                         : bad("template", "none on the node", "sudo space template build base"));
  return findings;
}

int command_doctor(const CommonOptions& common, const Directories& directories) {
  std::vector<Finding> findings = examine_machine("", directories);
  for (Finding& finding : examine_installation(common, directories)) findings.push_back(std::move(finding));
  const auto count = [&](Verdict verdict) {
    return std::ranges::count(findings, verdict, &Finding::verdict);
  };
  if (common.json) {
    JsonArray list;
    for (const Finding& finding : findings) {
      const char* verdict = finding.verdict == Verdict::good      ? "good"
                            : finding.verdict == Verdict::warning ? "warning"
                                                                  : "bad";
      list.push_back(JsonObject{{"check", finding.check},
                                {"verdict", verdict},
                                {"seen", finding.seen},
                                {"advice", finding.advice}});
    }
    print_json(list);
  } else {
    for (const Finding& finding : findings) {
      const char* mark = finding.verdict == Verdict::good      ? "ok  "
                         : finding.verdict == Verdict::warning ? "warn"
                                                               : "BAD ";
      print_line(fmt::format("{}  {:<13} {}", mark, finding.check, finding.seen));
      if (!finding.advice.empty()) print_line(fmt::format("      {:<13} -> {}", "", finding.advice));
    }
    print_line(fmt::format("{} good, {} warnings, {} bad", count(Verdict::good), count(Verdict::warning),
                           count(Verdict::bad)));
  }
  return count(Verdict::bad) == 0 ? 0 : exit_failed;
}

}  // namespace space::cli

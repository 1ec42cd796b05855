// Programs, accounts and the installation itself.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cli/doctor/checks.h"
#include "cli/doctor/facts.h"

namespace space::cli::doctor {

namespace {

constexpr std::uint64_t vm_uid_first = 200000;
constexpr std::uint64_t vm_uid_last = 265535;

bool executable(const Machine& machine, const std::string& path) {
  const auto file = machine.file(path);
  return file && S_ISREG(file->mode) && (file->mode & 0111) != 0;
}

Finding check_root(const Machine& machine) {
  if (machine.user() == 0) return good("root", "running as root");
  return warning("root", "not root", "folders, pool and daemons are not examined", "sudo space doctor");
}

Finding check_qemu(const Machine& machine) {
  const std::string program = "/usr/bin/qemu-system-x86_64";
  constexpr const char* means = "QEMU is what runs every sandbox: none can be started";
  const std::string install = "apt-get install -t bookworm-backports qemu-system-x86";
  if (!machine.file(program)) return bad("qemu", program + " is missing", means, install);
  if (!executable(machine, program))
    return bad("qemu", program + " is not an executable file", means,
               "apt-get install --reinstall qemu-system-x86");
  const auto said = machine.output({program, "--version"});
  if (!said)
    return bad("qemu", program + " does not start", means,
               program + " --version (says why), apt-get install --reinstall qemu-system-x86");
  constexpr std::string_view before = "version ";
  const auto at = said->find(before);
  const std::string version =
      at == std::string::npos ? "" : std::string(words_of(said->substr(at + before.size()), " (\n").front());
  const auto parts = words_of(version, ".");
  const std::uint64_t major = parts.empty() ? 0 : number(parts[0]).value_or(0);
  const std::uint64_t minor = parts.size() < 2 ? 0 : number(parts[1]).value_or(0);
  if (major < 9 || (major == 9 && minor < 1))
    return bad("qemu", "version " + (version.empty() ? "unknown" : version),
               "SPACE needs 9.1 or newer: older ones do not load a checkpoint the way it is kept", install);
  const std::string machines = machine.output({program, "-machine", "help"}).value_or("");
  for (const auto line : lines_of(machines))
    if (line.starts_with("microvm "))
      return good("qemu", "version " + version + ", with the microvm machine");
  return bad("qemu", "version " + version + " without the microvm machine", means,
             install + " (a build with everything)");
}

bool installed(const Machine& machine, const std::string& name) {
  return std::ranges::any_of(std::vector<std::string>{"/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"},
                             [&](const std::string& folder) { return executable(machine, folder + name); });
}

Finding check_programs(const Machine& machine, const std::string& check,
                       const std::vector<std::string>& programs, const std::string& means,
                       const std::string& packages) {
  std::vector<std::string> missing;
  for (const std::string& name : programs)
    if (!installed(machine, name)) missing.push_back(name);
  if (missing.empty()) return good(check, fmt::format("{}", fmt::join(programs, ", ")));
  return bad(check, fmt::format("not installed: {}", fmt::join(missing, ", ")), means,
             "apt-get install " + packages);
}

Finding check_installation(const Machine& machine) {
  const std::string folder = machine.own_folder();
  std::vector<std::string> missing;
  for (const char* name : {"space-noded", "space-netd", "space-sandboxd", "space-control", "space-daemon"})
    if (!executable(machine, folder + "/" + name)) missing.emplace_back(name);
  if (!missing.empty())
    return bad("installation",
               fmt::format("not beside this program in {}: {}", folder, fmt::join(missing, ", ")),
               "'space up' starts its own daemons, never those of another version",
               "sudo ./tools/dev build, or install SPACE again");
  for (const char* images : {"/../share/space/images/build.sh", "/../../images/build.sh"})
    if (executable(machine, folder + images)) return good("installation", "complete in " + folder);
  return bad("installation", "the image recipes are missing (looked beside " + folder + ")",
             "no template can be built", "install SPACE again");
}

Finding check_users(const Machine& machine, const Installation& installation) {
  const auto control = account(machine, "space-control");
  const auto sandboxd = account(machine, "space-sandboxd");
  const auto netd = account(machine, "space-netd");
  if (control && sandboxd && netd) {
    const std::set<std::uint64_t> uids{0, control->uid, sandboxd->uid, netd->uid};
    if (uids.size() != 4)
      return bad("users",
                 fmt::format("space-control is uid {}, space-sandboxd is uid {}, space-netd is uid {}",
                             control->uid, sandboxd->uid, netd->uid),
                 "the daemons are walls to each other only under uids of their own that are not root's",
                 "usermod --uid a free uid, then chown what lies in " + installation.directories.state);
    return good("users", "space-control, space-sandboxd and space-netd exist");
  }
  const std::string name = !control ? "space-control" : !sandboxd ? "space-sandboxd" : "space-netd";
  const auto folder =
      machine.file(installation.directories.state + name.substr(name.find('-')).replace(0, 1, "/"));
  if (!folder)
    return warning("users", "there is no user " + name, "SPACE was not started here yet",
                   "sudo space up -d makes it");
  return bad("users", "there is no user " + name,
             "its files belong to nobody; a new user of another uid could not open them",
             fmt::format("useradd --system --user-group --uid {} --no-create-home --home-dir /nonexistent "
                         "--shell /usr/sbin/nologin {}",
                         folder->uid, name));
}

Finding check_uid_range(const Machine& machine) {
  constexpr const char* means =
      "a VM would share its uid with that user and could reach the user's processes";
  for (const Account& user : accounts(machine))
    if (user.uid >= vm_uid_first && user.uid <= vm_uid_last)
      return bad(
          "uid range",
          fmt::format("user '{}' has uid {}, inside {}-{}", user.name, user.uid, vm_uid_first, vm_uid_last),
          means, fmt::format("usermod --uid 64000 {}", user.name));
  const std::string subordinate = machine.text("/etc/subuid").value_or("");
  for (const auto line : lines_of(subordinate)) {
    const auto fields = words_of(line, ":");
    if (fields.size() != 3) continue;
    const auto first = number(fields[1]);
    const auto count = number(fields[2]);
    if (first && count && *first <= vm_uid_last && *first + *count > vm_uid_first)
      return warning(
          "uid range",
          fmt::format("/etc/subuid gives '{}' uids of {}-{}", fields[0], vm_uid_first, vm_uid_last), means,
          fmt::format("move it: usermod --del-subuids {}-{} --add-subuids 300000-365535 {}", *first,
                      *first + *count - 1, fields[0]));
  }
  return good("uid range", fmt::format("{}-{} is free", vm_uid_first, vm_uid_last));
}

Finding check_config(const Machine& machine, const Installation& installation) {
  const std::string& path = installation.config;
  const auto file = machine.file(path);
  const auto text = machine.text(path);
  if (!file) return good("settings file", "none: defaults");
  if (!text || !S_ISREG(file->mode))
    return bad("settings file", path + " cannot be read", "'space up' does not start", "ls -l " + path);
  if (const auto config = parse_config(*text, path); !config)
    return bad("settings file", config.error().message, "'space up' does not start",
               "mend that line, or remove the file: every setting has a default");
  if (file->uid != 0 || (file->mode & 022) != 0)
    return bad("settings file", fmt::format("{} can be written by others than root", path),
               "whoever can write it decides where root puts files",
               fmt::format("chown root {0} && chmod 644 {0}", path));
  return good("settings file", path);
}

}  // namespace

Section software_section(const Machine& machine, const Installation& installation) {
  return {"Software",
          {check_root(machine), check_qemu(machine),
           check_programs(machine, "pool tools", {"mkfs.btrfs", "useradd"},
                          "the disk pool and the daemons' users cannot be made", "btrfs-progs passwd"),
           check_programs(machine, "image tools",
                          {"mmdebstrap", "mke2fs", "cpio", "zstd", "xz", "tar", "depmod", "unshare",
                           "openssl", "python3"},
                          "'space template build' fails",
                          "mmdebstrap e2fsprogs cpio zstd xz-utils tar kmod util-linux openssl python3"),
           check_installation(machine), check_users(machine, installation), check_uid_range(machine),
           check_config(machine, installation)}};
}

}  // namespace space::cli::doctor

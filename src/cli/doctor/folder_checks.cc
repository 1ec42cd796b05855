// Folders: where they lie, whose they are, who may write them.
#include <fmt/core.h>

#include <algorithm>

#include "cli/doctor/checks.h"
#include "cli/doctor/facts.h"

namespace space::cli::doctor {

namespace {

constexpr unsigned others_write = 022;

bool as_root_made_it(const FileFacts& file) {
  return file.uid == 0 && (file.mode & others_write) == 0;
}

// A folder that root alone may change; `check` is good while it does not exist.
Finding check_root_folder(const Machine& machine, const std::string& check, const std::string& path,
                          const std::string& means) {
  const auto folder = machine.file(path);
  if (!folder) return good(check, "not made yet");
  if (!S_ISDIR(folder->mode))
    return bad(check, path + " is not a folder", means, fmt::format("mv {} {}.old", path, path));
  if (as_root_made_it(*folder)) return good(check, path);
  return bad(check, fmt::format("{} belongs to uid {}, mode {:o}", path, folder->uid, folder->permissions()),
             means, fmt::format("chown root:root {0} && chmod 755 {0}", path));
}

// A daemon's own folder, and what is in it.
Finding check_own_folder(const Machine& machine, const std::string& path, const std::string& owner,
                         const std::string& means) {
  const std::string check = owner + " files";
  const auto user = account(machine, owner);
  const auto folder = machine.file(path);
  if (!user || !folder) return good(check, "not made yet");
  if ((folder->mode & 077) != 0)
    return bad(check, fmt::format("{} is open to others, mode {:o}", path, folder->permissions()),
               "other users of this machine can read keys and records", "chmod 700 " + path);
  std::vector<std::string> paths = {path};
  for (const std::string& name : machine.names(path)) paths.push_back(path + "/" + name);
  for (const std::string& each : paths)
    if (const auto file = machine.file(each); file && file->uid != user->uid)
      return bad(check, fmt::format("{} belongs to uid {}, not to {}", each, file->uid, owner), means,
                 fmt::format("chown -R {0}:{0} {1}", owner, path));
  return good(check, path);
}

// The daemons are not root: they must be able to walk there.
Finding check_way(const Machine& machine, const Installation& installation) {
  for (const std::string& folder : {installation.directories.state, installation.directories.run}) {
    for (std::size_t at = 0; at != std::string::npos; at = folder.find('/', at + 1)) {
      const std::string parent = at == 0 ? "/" : folder.substr(0, at);
      const auto facts = machine.file(parent);
      if (facts && (facts->mode & 01) == 0)
        return bad(
            "way to folders", fmt::format("{} is closed to others, mode {:o}", parent, facts->permissions()),
            fmt::format("the daemons, which are not root, cannot reach {}", folder), "chmod o+x " + parent);
    }
  }
  return good("way to folders", "open to the daemons");
}

Finding check_run_path(const Installation& installation) {
  const std::string& run = installation.directories.run;
  // <run>/sandboxd/vm/<id>/channel.sock, and a unix socket's address holds 107 bytes.
  constexpr std::size_t longest = 107 - sizeof("/sandboxd/vm//channel.sock") + 1 - 20;
  constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
  constexpr const char* means = "space-noded does not start";
  if (!run.starts_with('/') || run.find_first_not_of(allowed) != std::string::npos)
    return bad("run path", run, means, "use an absolute path of letters, digits and . _ - for --run");
  if (run.size() > longest)
    return bad("run path", fmt::format("{} characters long, at most {}", run.size(), longest),
               "the sockets below it have no room for their names", "use a shorter path for --run");
  return good("run path", run);
}

Finding check_writable(const Machine& machine, const Installation& installation) {
  const auto all = mounts(machine);
  for (const std::string& folder : {installation.directories.state, installation.directories.run})
    if (const Mount* mount = mount_of(all, folder); mount != nullptr && mount->read_only())
      return bad("file systems", fmt::format("{} lies on {}, which is read-only", folder, mount->point),
                 "nothing can be kept: the daemons do not start",
                 fmt::format("dmesg | tail (a failing disk?), then mount -o remount,rw {}", mount->point));
  const Mount* state = mount_of(all, installation.directories.state);
  const std::string type = state == nullptr ? "" : state->type;
  if (type == "tmpfs" || type == "ramfs")
    return warning("file systems",
                   fmt::format("{} lies in memory ({})", installation.directories.state, type),
                   "sandboxes, templates and records are gone after a reboot, and use up memory",
                   "set 'state' in " + installation.config + " to a folder on a disk");
  if (type.starts_with("nfs") || type.starts_with("cifs") || type.starts_with("fuse") || type == "9p")
    return warning("file systems", fmt::format("{} lies on {}", installation.directories.state, type),
                   "databases and a loop device over a network file system are slow and may be lost with it",
                   "set 'state' in " + installation.config + " to a folder on a local disk");
  return good("file systems", "writable" + (type.empty() ? "" : ", state on " + type));
}

Finding check_run_leftovers(const Machine& machine, const Installation& installation) {
  const std::string lock = installation.directories.run + "/up.lock";
  const auto file = machine.file(lock);
  const auto boot = value_of(machine.text("/proc/stat").value_or(""), "btime");
  constexpr std::int64_t slack_s = 60;  // the kernel computes the time of boot from the clock of now
  if (!file || !boot || machine.locked(lock) ||
      file->modified_s + slack_s >= static_cast<std::int64_t>(*boot))
    return good("run folder", "of this boot");
  const std::string& run = installation.directories.run;
  return warning(
      "run folder", run + " holds what was left before the last boot",
      "records of processes that are gone may be taken for running ones",
      fmt::format("rm -r {0} (nothing in it is needed), and keep it on a tmpfs such as /run", run));
}

Finding check_run_modes(const Machine& machine, const Installation& installation) {
  const std::string& run = installation.directories.run;
  for (const char* name : {"", "/noded", "/sandboxd", "/control"}) {
    const auto folder = machine.file(run + name);
    if (!folder || (folder->mode & 02) == 0) continue;
    return bad("run modes",
               fmt::format("{}{} can be written by everybody, mode {:o}", run, name, folder->permissions()),
               "any user of this machine can put a socket of his own in the place of a daemon's",
               fmt::format("chmod o-w {}{}", run, name));
  }
  return good("run modes", "closed to others");
}

Finding check_key_file(const Machine& machine, const Installation& installation) {
  const auto file = machine.file(installation.key_file);
  if (!file) return good("API key file", "none yet: 'space up' writes " + installation.key_file);
  if ((file->mode & 077) == 0) return good("API key file", installation.key_file);
  return bad("API key file", fmt::format("{} has mode {:o}", installation.key_file, file->permissions()),
             "other users of this machine can read the API key and run anything in any sandbox",
             "chmod 600 " + installation.key_file);
}

}  // namespace

Section folder_section(const Machine& machine, const Installation& installation) {
  const std::string& state = installation.directories.state;
  return {
      "Folders",
      {check_writable(machine, installation), check_way(machine, installation), check_run_path(installation),
       check_root_folder(machine, "state folder", state,
                         "whoever can change it decides what root mounts and starts"),
       check_root_folder(machine, "images", state + "/images",
                         "whoever can change it decides what every sandbox boots"),
       check_root_folder(machine, "image cache", "/var/cache/space",
                         "templates are built from what lies there"),
       check_own_folder(machine, state + "/control", "space-control",
                        "space-control cannot open its database: the API does not start"),
       check_own_folder(machine, state + "/sandboxd", "space-sandboxd",
                        "space-sandboxd cannot open its journal: no sandbox is managed"),
       check_own_folder(machine, state + "/netd", "space-netd",
                        "space-netd cannot keep its policies: no sandbox has a network"),
       check_run_leftovers(machine, installation), check_run_modes(machine, installation),
       check_key_file(machine, installation)}};
}

}  // namespace space::cli::doctor

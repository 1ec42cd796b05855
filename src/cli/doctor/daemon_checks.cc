// What runs: the supervisor, its daemons, their sockets, the port, and what nobody looks after any more.
#include <fmt/core.h>

#include <algorithm>

#include "base/clock.h"
#include "base/json.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/facts.h"

namespace space::cli::doctor {

namespace {

constexpr std::uint64_t vm_uid_first = 200000;
constexpr std::uint64_t vm_uid_last = 265535;
constexpr const char* daemon_names[] = {"space-noded", "space-netd", "space-control", "space-sandboxd"};
constexpr const char* restart = "sudo space down; sudo space up -d (sandboxes keep running)";

// The machine's processes, and which of them are this instance's.
struct Running {
  bool supervised = false;
  std::vector<Process> all;
  std::string run;

  Running(const Machine& machine, const Installation& installation)
      : supervised(machine.locked(installation.directories.run + "/up.lock")),
        all(processes(machine)),
        run(installation.directories.run) {}

  const Process* daemon(const std::string& name) const {
    const auto found = std::ranges::find_if(all, [&](const Process& process) {
      return process.name == name.substr(0, 15) &&
             std::ranges::find(process.words, run) != process.words.end();
    });
    return found == all.end() ? nullptr : &*found;
  }
};

Finding check_supervisor(const Running& running) {
  if (running.supervised) return good("supervisor", "up");
  return bad("supervisor", fmt::format("no 'space up' serves {}", running.run),
             "no API; sandboxes that run go on, but nobody can reach them", "sudo space up -d");
}

Finding check_daemons(const Running& running, const std::string& log) {
  if (!running.supervised) return good("daemons", "stopped");
  for (const char* name : daemon_names)
    if (running.daemon(name) == nullptr)
      return bad("daemons", fmt::format("{} does not run", name),
                 "it is started again and again, and ends: what it serves is away",
                 fmt::format("tail -n 50 {} | grep {} (its last error says why)", log, name));
  return good("daemons", "space-noded, space-netd, space-control and space-sandboxd run");
}

// Deaths the supervisor wrote down within the last ten minutes.
Finding check_restarts(const Machine& machine, const Running& running, const std::string& log) {
  constexpr std::int64_t window_s = 600;
  if (!running.supervised) return good("restarts", "stopped");
  const std::string text = machine.tail(log).value_or("");
  int deaths = 0;
  std::string who;
  for (const auto line : lines_of(text)) {
    if (line.find("\"daemon died\"") == std::string_view::npos) continue;
    const auto object = parse_json_object(line, "log");
    if (!object) continue;
    const auto time = require_text(*object, "ts");
    const auto name = require_text(*object, "daemon");
    const auto wall = time ? parse_rfc3339(*time) : std::nullopt;
    if (!wall || !name) continue;
    const auto seconds = std::chrono::floor<std::chrono::seconds>(*wall).time_since_epoch().count();
    if (seconds + window_s < machine.now_s()) continue;
    ++deaths;
    who = *name;
  }
  if (deaths < 3)
    return good("restarts", deaths == 0 ? "none lately" : "one or two lately: that is survived");
  return bad("restarts",
             fmt::format("daemons died {} times within ten minutes, the last was {}", deaths, who),
             "requests fail while it is away",
             fmt::format("grep {} {} | tail -n 20 (its last error says why)", who, log));
}

// A program replaced on the disk runs on as it was.
Finding check_builds(const Machine& machine, const Running& running) {
  for (const char* name : daemon_names) {
    const Process* daemon = running.daemon(name);
    if (daemon == nullptr) continue;
    const auto program = machine.link(fmt::format("/proc/{}/exe", daemon->pid));
    if (program && program->ends_with(" (deleted)"))
      return warning("versions", fmt::format("{} runs an older build than the one installed", name),
                     "daemons of two versions may not understand each other", restart);
  }
  return good("versions", running.supervised ? "the daemons run what is installed" : "stopped");
}

Finding check_sockets(const Machine& machine, const Running& running) {
  if (!running.supervised) return good("sockets", "stopped");
  for (const char* name : {"/noded/noded.sock", "/netd/netd.sock", "/control/node.sock"}) {
    const std::string path = running.run + name;
    const auto socket = machine.file(path);
    if (!socket || !S_ISSOCK(socket->mode))
      return bad("sockets", path + (socket ? " is no socket" : " is missing"),
                 "the daemons cannot reach each other", restart);
    // Two daemons that share no group knock at the first; who knocks is told by the kernel.
    if ((socket->mode & 02) != 0 && std::string_view(name) != "/noded/noded.sock")
      return bad("sockets", fmt::format("{} is open to everybody, mode {:o}", path, socket->permissions()),
                 "a wall between users of this machine is missing", "chmod 660 " + path);
    if ((socket->mode & 060) != 060)
      return bad("sockets", fmt::format("{} is closed to its group, mode {:o}", path, socket->permissions()),
                 "space-sandboxd cannot reach it: no sandbox can be started", "chmod 660 " + path);
  }
  return good("sockets", "in place");
}

struct Listener {
  std::string address;  // hexadecimal, as /proc/net/tcp has it
  std::string inode;
};

std::optional<Listener> listener_on(const Machine& machine, unsigned port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string text = machine.text(table).value_or("");
    for (const auto line : lines_of(text)) {
      const auto words = words_of(line);
      constexpr std::string_view listening = "0A";
      if (words.size() > 9 && words[3] == listening && words[1].ends_with(wanted))
        return Listener{std::string(words[1].substr(0, words[1].find(':'))), std::string(words[9])};
    }
  }
  return std::nullopt;
}

bool holds_socket(const Machine& machine, const Process& process, const std::string& inode) {
  const std::string folder = fmt::format("/proc/{}/fd", process.pid);
  return std::ranges::any_of(machine.names(folder), [&](const std::string& fd) {
    return machine.link(folder + "/" + fd) == "socket:[" + inode + "]";
  });
}

Finding check_port(const Machine& machine, const Installation& installation, const Running& running) {
  const auto colon = installation.listen.rfind(':');
  const auto port = colon == std::string::npos ? std::nullopt : number(installation.listen.substr(colon + 1));
  if (!port || *port == 0 || *port > 65535)
    return bad("port", "'listen' is " + installation.listen, "'space up' does not start", "use ADDRESS:PORT");
  const auto listener = listener_on(machine, static_cast<unsigned>(*port));
  const Process* control = running.daemon("space-control");
  if (!listener) return good("port", fmt::format("{} is free", *port));
  if (control == nullptr || !holds_socket(machine, *control, listener->inode)) {
    const auto owner = std::ranges::find_if(
        running.all, [&](const Process& process) { return holds_socket(machine, process, listener->inode); });
    const std::string who = owner == running.all.end()
                                ? "another program"
                                : fmt::format("'{}' (process {})", owner->name, owner->pid);
    return bad("port", fmt::format("port {} is taken by {}", *port, who), "the API cannot be served there",
               fmt::format("stop that program, or 'space up --listen 127.0.0.1:{}'", *port + 1));
  }
  constexpr std::string_view loopback = "0100007F";
  constexpr std::string_view loopback6 = "00000000000000000000000001000000";
  if (listener->address != loopback && listener->address != loopback6)
    return warning("port", "the API listens beyond loopback, without encryption",
                   "API keys and all that sandboxes say can be read on the network",
                   "listen on 127.0.0.1 and put a proxy with TLS in front");
  return good("port", installation.listen);
}

// Control groups of a process: ".../space/<instance>/<sandbox>".
bool in_a_sandbox_group(const Machine& machine, const Process& process) {
  const auto groups = machine.text(fmt::format("/proc/{}/cgroup", process.pid));
  return !groups || groups->find("/space/") != std::string::npos;
}

Finding check_orphans(const Machine& machine, const Running& running) {
  int waiting = 0;
  for (const Process& process : running.all) {
    const std::string status = machine.text(fmt::format("/proc/{}/status", process.pid)).value_or("");
    const auto uid = value_of(status, "Uid:");
    if (!uid || *uid < vm_uid_first || *uid > vm_uid_last) continue;
    if (!in_a_sandbox_group(machine, process))
      return bad("leftovers",
                 fmt::format("process {} ('{}') has the uid of a sandbox, {}, and belongs to none",
                             process.pid, process.name, *uid),
                 "nobody looks after it; it uses up memory and may share a uid with a sandbox to come",
                 fmt::format("kill {}", process.pid));
    const std::string groups = machine.text(fmt::format("/proc/{}/cgroup", process.pid)).value_or("");
    std::string instance = running.run.substr(1);
    std::ranges::replace(instance, '/', '+');
    if (groups.find("/space/" + instance + "/") != std::string::npos) ++waiting;
  }
  if (waiting > 0 && !running.supervised)
    return warning("leftovers", fmt::format("{} sandboxes run without the platform", waiting),
                   "nobody can reach them, and their timeouts are not kept",
                   "sudo space up -d finds them again; sudo space down --all ends them");
  return good("leftovers", "no virtual machine without a sandbox");
}

Finding check_log(const Machine& machine, const std::string& path) {
  const auto log = machine.file(path);
  if (!log || log->bytes < gib) return good("log size", log ? size_text(log->bytes) : "no log yet");
  return warning("log size", fmt::format("{} has {}", path, size_text(log->bytes)),
                 "it shares the disk with the pool",
                 fmt::format("cp {0} elsewhere if you need it, then truncate -s 0 {0}", path));
}

}  // namespace

Section daemon_section(const Machine& machine, const Installation& installation) {
  const Running running(machine, installation);
  const std::string log = installation.directories.state + "/space.log";
  return {
      "Platform",
      {check_supervisor(running), check_daemons(running, log), check_restarts(machine, running, log),
       check_builds(machine, running), check_sockets(machine, running),
       check_port(machine, installation, running), check_orphans(machine, running), check_log(machine, log)}};
}

std::vector<Section> examine(const Machine& machine, const Installation& installation) {
  std::vector<Section> sections = {kernel_section(machine, installation),
                                   resource_section(machine, installation),
                                   software_section(machine, installation), hardening_section(machine)};
  if (machine.user() != 0) return sections;
  sections.push_back(folder_section(machine, installation));
  sections.push_back(pool_section(machine, installation));
  sections.push_back(daemon_section(machine, installation));
  return sections;
}

}  // namespace space::cli::doctor

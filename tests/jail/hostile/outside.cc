#include "tests/jail/hostile/outside.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/fd.h"
#include "base/sha256.h"

namespace space::hostile {
namespace {

namespace fs = std::filesystem;

bool is_own(const Scope& scope, const std::string& text) {
  return std::ranges::any_of(scope.own,
                             [&](const std::string& id) { return text.find(id) != std::string::npos; });
}

std::string look_at(const fs::path& path) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) return "gone";
  std::string seen = fmt::format("mode {:o} uid {} gid {} links {}", status.st_mode, status.st_uid,
                                 status.st_gid, status.st_nlink);
  // A folder's times and links change with what is made in it, which is looked at by itself.
  if (S_ISDIR(status.st_mode)) return fmt::format("folder mode {:o} uid {}", status.st_mode, status.st_uid);
  if (S_ISREG(status.st_mode))
    seen +=
        fmt::format(" size {} changed {}.{}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
  std::error_code ignored;
  if (S_ISLNK(status.st_mode)) seen += " to " + fs::read_symlink(path, ignored).string();
  return seen;
}

// The bytes that are not holes, and where.
std::string content_of(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return "unreadable";
  std::string data;
  for (off_t at = 0; (at = ::lseek(file.get(), at, SEEK_DATA)) >= 0;) {
    const off_t end = ::lseek(file.get(), at, SEEK_HOLE);
    data += fmt::format("at {}:", at);
    for (std::string piece(1 << 16, '\0'); at < end;) {
      const ssize_t got =
          ::pread(file.get(), piece.data(), std::min<std::size_t>(piece.size(), end - at), at);
      if (got <= 0) return "unreadable";
      data.append(piece, 0, static_cast<std::size_t>(got));
      at += got;
    }
  }
  return sha256_hex(data);
}

void look_at_files(const Scope& scope, Outside& out) {
  std::error_code error;
  for (fs::recursive_directory_iterator at(scope.root, error), end; !error && at != end;
       at.increment(error)) {
    const std::string path = at->path();
    if (is_own(scope, path)) {
      at.disable_recursion_pending();
    } else if (!path.ends_with("/pool.img")) {  // holds everybody's disks
      out["file " + path] = look_at(path);
    }
  }
}

void look_at_lines(const Scope& scope, const std::string& what, const std::string& file,
                   const std::string& with, Outside& out) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.find(with) != std::string::npos && !is_own(scope, line)) {
      if (what == "mount") line = line.substr(line.find('/'));  // without its numbers
      out[what + " " + line] = "there";
    }
}

// Folders of the instance in every hierarchy, with the processes in them.
void look_at_groups(const Scope& scope, Outside& out) {
  std::string name = scope.run.substr(1);
  std::ranges::replace(name, '/', '+');
  std::ifstream mounts("/proc/self/mounts");
  for (std::string device, point, type, rest;
       mounts >> device >> point >> type && std::getline(mounts, rest);) {
    const fs::path instance = fs::path(point) / "space" / name;
    std::error_code error;
    if (!type.starts_with("cgroup") || !fs::exists(instance, error)) continue;
    for (const auto& entry : fs::directory_iterator(instance, error)) {
      if (!entry.is_directory(error) || is_own(scope, entry.path())) continue;
      std::stringstream processes;  // supervisors of all VMs share a group
      if (entry.path().filename() != "supervisors")
        processes << std::ifstream(entry.path() / "cgroup.procs").rdbuf();
      out["group " + entry.path().string()] = processes.str();
    }
  }
}

std::string look_at_process(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text, word;
  std::getline(file, text);
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  for (int field = 3; field <= 22 && fields >> word; ++field) {
  }
  return "started " + word;  // field 22
}

}  // namespace

Outside look_outside(const Scope& scope) {
  Outside out;
  look_at_files(scope, out);
  look_at_lines(scope, "mount", "/proc/self/mountinfo", scope.root, out);
  look_at_groups(scope, out);
  for (const pid_t pid : scope.processes) out[fmt::format("process {}", pid)] = look_at_process(pid);
  for (const std::string& path : scope.content)
    out["content " + path] = look_at(path) + " " + content_of(path);
  for (const char* path : {"/etc/passwd", "/etc/shadow", "/etc/group"})
    out[std::string("content ") + path] = look_at(path) + " " + content_of(path);
  return out;
}

std::string differences(const Outside& before, const Outside& after) {
  std::string text;
  for (const auto& [what, seen] : before)
    if (const auto now = after.find(what); now == after.end())
      text += fmt::format("gone: {}\n", what);
    else if (now->second != seen)
      text += fmt::format("changed: {}: {} -> {}\n", what, seen, now->second);
  for (const auto& [what, seen] : after)
    if (!before.contains(what)) text += fmt::format("new: {}: {}\n", what, seen);
  return text;
}

}  // namespace space::hostile

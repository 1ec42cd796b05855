#include "priv/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/ids.h"
#include "priv/folder.h"

namespace space::priv {
namespace {

constexpr const char* product = "space";
constexpr std::size_t file_bytes_max = 1 << 20;
constexpr int kill_rounds_max = 1000;
constexpr int removal_rounds_max = 500;
constexpr const char* supervisors = "supervisors";

Result<void> write_setting(const std::string& folder, const CgroupSetting& setting) {
  const auto file = open_fd(folder + "/" + setting.file, O_WRONLY);
  if (!file && setting.optional && file.error().code == Code::not_found) return {};
  if (!file) return std::unexpected(file.error());
  if (auto written = write_all(file->get(), as_bytes(setting.value)); !written)
    return wrap(written.error(), "set " + setting.file);
  return {};
}

Result<void> make_one(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return fail_errno(errno, "make " + folder);
  return {};
}

// Version 2 gives a child only the controllers its parent passes on.
Result<void> pass_on_controllers(const Hierarchy& hierarchy, const std::string& folder) {
  std::string wanted;
  if (hierarchy.memory) wanted += "+memory ";
  if (hierarchy.pids) wanted += "+pids ";
  if (hierarchy.cpu) wanted += "+cpu ";
  if (!hierarchy.unified || wanted.empty()) return {};
  return write_setting(folder, {"cgroup.subtree_control", wanted});
}

std::vector<pid_t> pids_in(std::string_view text) {
  std::vector<pid_t> pids;
  while (!text.empty()) {
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), pid);
    if (error != std::errc()) break;
    if (pid > 1) pids.push_back(pid);
    text.remove_prefix(std::min(text.size(), static_cast<std::size_t>(end - text.data()) + 1));
  }
  return pids;
}

// A killed process keeps its group busy until it is really gone.
Result<void> remove_one(const std::string& folder) {
  for (int round = 0; ::rmdir(folder.c_str()) != 0; ++round) {
    if (errno == ENOENT) return {};
    if (errno != EBUSY || round == removal_rounds_max) return fail_errno(errno, "remove the control group");
    ::usleep(2000);
  }
  return {};
}

}  // namespace

Result<void> kill_one_by_one(const std::string& folder) {
  for (int round = 0; round < kill_rounds_max; ++round) {
    SPACE_TRY(const std::string text, read_file(folder + "/cgroup.procs", file_bytes_max));
    const auto pids = pids_in(text);
    if (pids.empty()) return {};
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
    ::usleep(1000);
  }
  return fail(Code::internal, "processes survive being killed");
}

Result<Cgroups> Cgroups::find(std::string_view run) {
  Cgroups groups;
  SPACE_TRY(groups.instance_, instance_name(run));
  SPACE_TRY(const auto mounts, mounts_of_this_process());
  std::string controllers;
  const auto unified = std::ranges::find(mounts, "cgroup2", &Mount::type);
  if (unified != mounts.end()) {
    SPACE_TRY(controllers, read_file(unified->point + "/cgroup.controllers", file_bytes_max));
  }
  SPACE_TRY(groups.hierarchies_, choose_hierarchies(mounts, controllers));
  return groups;
}

std::string Cgroups::name_of(const std::string& id) const {
  return fmt::format("/{}/{}/{}", product, instance_, id);
}

std::string Cgroups::folder(const Hierarchy& hierarchy, std::string_view id) const {
  return hierarchy.mount + name_of(std::string(id));
}

Result<void> Cgroups::make(const std::string& id) const {
  for (const Hierarchy& hierarchy : hierarchies_) {
    const std::string top = hierarchy.mount + "/" + product;
    const std::string instance = top + "/" + instance_;
    SPACE_CHECK(pass_on_controllers(hierarchy, hierarchy.mount));
    for (const std::string& parent : {top, instance}) {
      SPACE_CHECK(make_one(parent));
      SPACE_CHECK(pass_on_controllers(hierarchy, parent));
    }
    SPACE_CHECK(make_one(folder(hierarchy, id)));
  }
  return {};
}

Result<void> Cgroups::create(const std::string& id, const CgroupLimits& limits) const {
  SPACE_CHECK(make(id));
  for (const Hierarchy& hierarchy : hierarchies_)
    for (const CgroupSetting& setting : settings_for(hierarchy, limits))
      SPACE_CHECK(write_setting(folder(hierarchy, id), setting));
  return {};
}

Result<void> Cgroups::enter_supervisors() const {
  SPACE_CHECK(make(supervisors));
  return enter(supervisors);
}

Result<void> Cgroups::enter(const std::string& id) const {
  for (const Hierarchy& hierarchy : hierarchies_)
    SPACE_CHECK(write_setting(folder(hierarchy, id), {"cgroup.procs", "0"}));  // 0 = the writer
  return {};
}

Result<void> Cgroups::kill(const std::string& id) const {
  for (const Hierarchy& hierarchy : hierarchies_) {
    const std::string group = folder(hierarchy, id);
    if (::access(group.c_str(), F_OK) != 0) continue;
    const bool at_once = hierarchy.unified && ::access((group + "/cgroup.kill").c_str(), W_OK) == 0;
    return at_once ? write_setting(group, {"cgroup.kill", "1"}) : kill_one_by_one(group);
  }
  return {};
}

bool Cgroups::out_of_memory(const std::string& id) const {
  for (const Hierarchy& hierarchy : hierarchies_) {
    if (!hierarchy.memory) continue;
    const char* file = hierarchy.unified ? "/memory.events" : "/memory.oom_control";
    const auto text = read_file(folder(hierarchy, id) + file, file_bytes_max);
    return text && counter_in(*text, "oom_kill") > 0;
  }
  return false;
}

Result<void> Cgroups::remove(const std::string& id) const {
  for (const Hierarchy& hierarchy : hierarchies_) SPACE_CHECK(remove_one(folder(hierarchy, id)));
  return {};
}

Result<std::vector<std::string>> Cgroups::ids() const {
  std::vector<std::string> ids;
  for (const Hierarchy& hierarchy : hierarchies_) {
    const auto names = names_in(folder(hierarchy, ""));
    if (!names && names.error().code == Code::not_found) continue;
    if (!names) return std::unexpected(names.error());
    for (const std::string& name : *names)
      if (is_sandbox_id(name) && std::ranges::find(ids, name) == ids.end()) ids.push_back(name);
  }
  return ids;
}

void Cgroups::remove_instance() const {
  (void)remove(supervisors);
  for (const Hierarchy& hierarchy : hierarchies_) {
    ::rmdir(folder(hierarchy, "").c_str());
    ::rmdir((hierarchy.mount + "/" + product).c_str());  // stays while another instance has one
  }
}

}  // namespace space::priv

#include "guest/disk_diff_call.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>

#include "base/fd.h"

namespace space::guest {

namespace {

constexpr std::int64_t changes_max = 10'000;
constexpr std::int64_t time_ms_max = 600'000;
constexpr const char* mount_parent = "/run/space";
constexpr std::size_t serial_bytes_max = 64;

// "/dev/vdb" of the virtio disk with this serial.
Result<std::string> device_of(std::string_view serial) {
  for (char letter = 'b'; letter <= 'z'; ++letter) {
    const auto text = read_file(fmt::format("/sys/block/vd{}/serial", letter), serial_bytes_max);
    if (text && std::string_view(*text).substr(0, serial.size()) == serial &&
        text->size() <= serial.size() + 1)
      return fmt::format("/dev/vd{}", letter);
  }
  return fail(Code::not_found, "this machine has no {} disk", serial);
}

class MountedDisk {
 public:
  MountedDisk() = default;
  MountedDisk(const MountedDisk&) = delete;
  MountedDisk& operator=(const MountedDisk&) = delete;
  ~MountedDisk() {
    folder_.reset();
    if (!point_.empty()) ::umount2(point_.c_str(), MNT_DETACH);
  }

  Result<void> mount(std::string_view serial, const std::string& point) {
    SPACE_TRY(const std::string device, device_of(serial));
    if (::mkdir(point.c_str(), 0700) != 0 && errno != EEXIST)
      return fail_errno(errno, fmt::format("make {}", point));
    constexpr unsigned long flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
    if (::mount(device.c_str(), point.c_str(), "ext4", flags, "errors=continue") != 0)
      return fail_errno(errno, fmt::format("mount {}", device));
    point_ = point;
    SPACE_TRY(folder_, open_fd(point, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return {};
  }
  int folder() const { return folder_.get(); }

 private:
  std::string point_;
  Fd folder_;
};

const char* name_of(TreeChange::Kind kind) {
  constexpr std::array<const char*, 3> names{"added", "removed", "changed"};
  return names.at(static_cast<std::size_t>(kind));
}

}  // namespace

Result<TreeDiffLimits> parse_diff(const JsonObject& message) {
  TreeDiffLimits limits;
  SPACE_TRY(const auto changes, int_member(message, "limit", 1, changes_max));
  if (changes) limits.changes = static_cast<std::size_t>(*changes);
  SPACE_TRY(const auto time_ms, int_member(message, "time_ms", 1, time_ms_max));
  if (time_ms) limits.until = Deadline::after(Millis(*time_ms));
  return limits;
}

Result<TreeDiff> diff_disks(const TreeDiffLimits& limits) {
  ::mkdir(mount_parent, 0755);
  MountedDisk from, to;
  SPACE_CHECK(from.mount("second", fmt::format("{}/from", mount_parent)));
  SPACE_CHECK(to.mount("third", fmt::format("{}/to", mount_parent)));
  return diff_trees(from.folder(), to.folder(), limits);
}

JsonObject to_json(const TreeDiff& diff) {
  JsonArray changes;
  for (const TreeChange& change : diff.changes)
    changes.push_back(JsonObject{{"path", change.path},
                                 {"change", name_of(change.kind)},
                                 {"type", type_name(change.type)},
                                 {"size", change.size}});
  return {{"changes", std::move(changes)}, {"truncated", diff.truncated}};
}

}  // namespace space::guest

#include "priv/subvolume.h"

#include <btrfsutil.h>

#include <cerrno>

namespace space::priv {
namespace {

Result<void> checked(btrfs_util_error error, const std::string& what) {
  if (error == BTRFS_UTIL_OK) return {};
  return fail_errno(errno, what);
}

}  // namespace

Result<void> create_subvolume(int parent, const std::string& name) {
  return checked(btrfs_util_create_subvolume_fd(parent, name.c_str(), 0, nullptr, nullptr),
                 "create subvolume " + name);
}

Result<void> snapshot_subvolume(int source, int parent, const std::string& name) {
  auto made = checked(btrfs_util_create_snapshot_fd2(source, parent, name.c_str(), 0, nullptr, nullptr),
                      "create snapshot " + name);
  return made ? made : explained(made.error());
}

std::unexpected<Error> explained(Error error) {
  if (error.code != Code::exhausted) return std::unexpected(std::move(error));
  return fail(Code::exhausted, "the disk pool is full. Kill sandboxes to make room ({})", error.message);
}

Result<void> set_read_only(int subvolume) {
  return checked(btrfs_util_set_subvolume_read_only_fd(subvolume, true), "make a subvolume read-only");
}

Result<void> delete_subvolume(int parent, const std::string& name) {
  const auto error = btrfs_util_delete_subvolume_fd(parent, name.c_str(), 0);
  if (error != BTRFS_UTIL_OK && errno == ENOENT) return {};
  return checked(error, "delete subvolume " + name);
}

}  // namespace space::priv

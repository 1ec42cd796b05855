# The guest's daemon alone, on TCP, without a VM: on a copy of a template's disk, in mount, process and network namespaces
# of its own that end with the last process. Source it.

# daemon_alone DISK COMMAND… : COMMAND runs in the namespaces, where the daemon answers on localhost:49983. Root.
daemon_alone() {
  local folder status=0
  folder=$(mktemp -d /tmp/space-daemon.XXXXXX)
  cp --sparse=always "$1" "$folder/disk.raw"
  shift
  unshare --mount --propagation private --pid --fork --kill-child --mount-proc --net --ipc --uts \
    bash -euo pipefail "$repo/tests/lib/daemon_alone_inside.sh" "$folder" "$SPACE_BUILD/space-daemon" "$@" || status=$?
  if grep -qs "$folder" /proc/self/mounts /sys/block/loop*/loop/backing_file; then status=1; fi
  rm -rf --one-file-system "$folder"
  return $status
}

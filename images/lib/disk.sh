# Step disk: rootfs.tar + the recipe's files/ and setup.sh, as a sparse ext4 image disk.raw.
# shellcheck shell=bash

disk_step() {
  local inputs=("$here/lib/disk.sh")
  for input in files setup.sh; do [[ -e $recipe/$input ]] && inputs+=("$recipe/$input"); done
  disk_key=$(key_of "${rootfs##*/}" "${disk_mib:?}" "$(hash_of "${inputs[@]}")")
  cached disk "$disk_key" disk_build
  disk=$result
}

disk_build() {
  mkdir tree
  tar -C tree --xattrs --xattrs-include='*' --numeric-owner -xpf "${rootfs:?}/rootfs.tar"
  # Credentials of the machine's mirror, if it has any, must not reach a guest.
  sed -Ei 's#//[^/@ ]+@#//#' tree/etc/apt/sources.list
  if [[ -d $recipe/files ]]; then
    (cd "$recipe/files" && tar --owner=0 --group=0 --mode='u=rwX,go=rX' -cf - .) | tar -C tree -xpf - --overwrite
  fi
  [[ -e $recipe/setup.sh ]] && disk_setup
  rm -rf tree/{tmp,run,var/tmp,var/cache/apt,var/lib/apt/lists}/* tree/var/log/*.log
  disk_forget_identity
  disk_format
  openssl dgst -sha256 -r disk.raw | cut -d' ' -f1 >disk_sha256  # four times as fast as sha256sum
  cp "$rootfs/packages" packages
  rm -rf --one-file-system tree
}

# Whatever packages and recipes made: a template has no identity and no secret that every sandbox would share. The
# daemon writes the machine id and the host keys of each sandbox.
disk_forget_identity() {
  : >tree/etc/machine-id
  [[ -f tree/var/lib/dbus/machine-id && ! -L tree/var/lib/dbus/machine-id ]] && : >tree/var/lib/dbus/machine-id
  rm -f tree/etc/ssh/ssh_host_*_key{,.pub} tree/var/lib/systemd/random-seed tree/var/lib/urandom/random-seed
  rm -rf tree/var/lib/cloud tree/var/lib/space
}

# In namespaces of its own: no network, no mounts or processes outlive it.
disk_setup() {
  cp "$recipe/setup.sh" tree/tmp/setup.sh
  unshare --mount --pid --fork --net --uts --ipc --mount-proc \
    chroot tree /bin/bash -euo pipefail /tmp/setup.sh >&2
}

# UUID and hash seed come from the inputs; a small journal keeps what a sandbox rewrites, and so its
# snapshots, small; prezeroed: inode tables are holes, nothing is left to initialise after the first mount.
disk_format() {
  local uuid
  uuid=$(sed -E 's/(.{8})(.{4}).(.{3}).(.{3})(.{12})/\1-\2-4\3-8\4-\5/' <<<"$disk_key")
  truncate -s "${disk_mib}M" disk.raw
  E2FSPROGS_FAKE_TIME=$(stat -c %Y "$rootfs/rootfs.tar") \
    mke2fs -q -t ext4 -b 4096 -m 1 -L space -U "$uuid" -J size=16 \
    -E "hash_seed=$uuid,root_owner=0:0,assume_storage_prezeroed=1,nodiscard" -d tree disk.raw >&2
}

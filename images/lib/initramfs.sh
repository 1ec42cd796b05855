# Step initramfs: a newc cpio whose /init is space-daemon. Not compressed: unpacking costs more than reading.
# shellcheck shell=bash

initramfs_step() {
  cached initramfs "$(key_of "${kernel##*/}" "$(hash_of "$daemon" "$here/lib/initramfs.sh")")" initramfs_build
  initramfs=$result
}

initramfs_build() {
  mkdir -p tree/{dev,newroot,modules}
  install -m 755 "$daemon" tree/init
  install -m 644 "${kernel:?}"/modules/*.ko tree/modules/
  mknod -m 600 tree/dev/console c 5 1
  find tree -exec touch --no-dereference --date=@0 {} +
  (cd tree && find . -print0 | LC_ALL=C sort -z |
    cpio --null --create --format=newc --owner=0:0 --reproducible --quiet) >initramfs.img
  # Whole pages: with 512 bytes left of the last one, a microVM entered through PVH hangs before its first program.
  truncate -s %4096 initramfs.img
  sha256sum <"$daemon" | cut -d' ' -f1 >daemon_sha256
  "$daemon" --version 2>/dev/null >daemon_version || echo unknown >daemon_version
  rm -r tree
}

# Step kernel: vmlinuz, modules/NN-name.ko and `version` out of Debian's cloud kernel package.
# shellcheck shell=bash
kernel_series=6.12
kernel_modules=(virtio_mmio virtio_blk virtio-rng virtio_net virtio_balloon)
kernel_builtins=(virtio virtio_ring virtio_console ext4)  # needed, and expected inside vmlinuz

# The newest package of the series: its name, version and hash.
kernel_candidate() {
  local package
  package=$(apt-cache search --names-only "^linux-image-${kernel_series/./\\.}\\..*cloud-amd64\$" |
    cut -d' ' -f1 | sort -V | tail -n1)
  [[ $package ]] || die "no Linux $kernel_series cloud kernel in this machine's Debian sources"
  apt-cache --no-all-versions show "$package" | grep -E '^(Package|Version|SHA256):'
}

kernel_step() {
  cached kernel "$(key_of "$(<"$resolved/kernel")" "$(hash_of "$here/lib/kernel.sh")")" kernel_build
  kernel=$result
}

kernel_build() {
  local package
  package=$(awk '/^Package:/ { p = $2 } /^Version:/ { print p "=" $2 }' "$resolved/kernel")
  say "kernel: downloading $package"
  apt-get download -qq -o APT::Sandbox::User=root "$package" >&2
  dpkg-deb -x ./*.deb tree
  local image version
  image=$(echo tree/boot/vmlinuz-*)
  version=${image##*/vmlinuz-}
  kernel_unpack "$image" >vmlinuz
  depmod -b tree "$version"
  kernel_collect_modules "$version"
  echo "$version" >version
  rm -r tree ./*.deb
}

# The ELF kernel inside a bzImage. Without KVM its self-extraction costs a second of every boot.
# Offsets are those of the x86 boot protocol: setup_sects, payload_offset, payload_length.
kernel_unpack() {
  local sectors offset length
  sectors=$(od -An -j $((0x1f1)) -N1 -tu1 "$1")
  offset=$(od -An -j $((0x248)) -N4 -tu4 "$1")
  length=$(od -An -j $((0x24c)) -N4 -tu4 "$1")
  # The last four bytes of the payload are the unpacked size, not part of the zstd frame.
  length=$((length - 4))
  head -c $(((sectors + 1) * 512 + offset + length)) "$1" | tail -c "$length" | zstd -dc
}

# In the order they must be loaded: modprobe lists what a module needs before the module.
kernel_collect_modules() {
  local version=$1 module path number=10
  local -A seen=()
  mkdir modules
  for module in "${kernel_builtins[@]}"; do
    grep -q "/$module\.ko$" "tree/lib/modules/$version/modules.builtin" || die "$module is not built into $version"
  done
  for module in "${kernel_modules[@]}"; do
    while read -r _ path _; do
      [[ ${seen[$path]-} ]] && continue
      seen[$path]=1
      xz -dc "$path" >"modules/$number-$(basename "$path" .ko.xz).ko"
      number=$((number + 1))
    done < <(modprobe -d tree -S "$version" --show-depends "$module" | grep '^insmod ')
  done
  ((${#seen[@]} >= ${#kernel_modules[@]})) || die 'modprobe found fewer modules than asked for'
}

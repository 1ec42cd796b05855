# Step rootfs: the recipe's packages and nothing else, as rootfs.tar; `packages` lists name=version.
# shellcheck shell=bash

rootfs_step() {
  cached rootfs "$(key_of "$(<"$resolved/closure")" "$(hash_of "$here/lib/rootfs.sh")")" rootfs_build
  rootfs=$result
}

# Documentation and translations stay out, now and when a sandbox installs packages later.
rootfs_build() {
  local proxy option options=()
  for option in {doc,man,info,locale,lintian,bug,gnome/help}; do
    options+=(--dpkgopt="path-exclude=/usr/share/$option/*")
  done
  # force-unsafe-io: no fsync per file. A build that is cut off starts over, and so may a sandbox.
  options+=(--dpkgopt='path-include=/usr/share/doc/*/copyright' --dpkgopt=force-unsafe-io)
  proxy=$(apt-config dump --format '%f "%v";%n' Acquire::http::Proxy Acquire::https::Proxy)
  [[ $proxy ]] && options+=(--aptopt="$proxy")
  say "rootfs: installing $(wc -l <"$resolved/closure") packages"
  # Only times later than the newest package list are changed: byte-compiled Python stays valid.
  SOURCE_DATE_EPOCH=$(stat -c %Y /var/lib/apt/lists/*_InRelease | sort -n | tail -n1) \
    mmdebstrap --mode=root --variant=apt --format=tar --include="$(IFS=,; echo "${rootfs_packages[*]}")" \
    --aptopt='Apt::Install-Recommends "false"' "${options[@]}" \
    --customize-hook='rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap' \
    --customize-hook='chroot "$1" dpkg-query -W -f "\${Package}=\${Version}\n" >packages' \
    "$debian_release" rootfs.tar - <"$resolved/sources.list" 2>mmdebstrap.log || {
      tail -n 20 mmdebstrap.log >&2
      die 'mmdebstrap failed'
    }
  rm mmdebstrap.log
}

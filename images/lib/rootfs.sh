# Step rootfs: the recipe's packages and nothing else, as rootfs.tar; `packages` lists name=version.
# shellcheck shell=bash

rootfs_step() {
  local sources
  mapfile -t rootfs_packages < <(sed -E 's/#.*//; s/[[:space:]]+//g; /^$/d' "$recipe/packages")
  sources=$(mktemp "$cache/tmp.XXXXXX.list")
  debian_sources >"$sources"
  rootfs_closure=$(debian_closure "$sources" apt "${rootfs_packages[@]}")
  [[ $rootfs_closure ]] || die 'apt cannot resolve the packages of the recipe'
  cached rootfs "$(key_of "$rootfs_closure" "$(hash_of "$here/lib/rootfs.sh")")" rootfs_build
  rm "$sources"
  rootfs=$result
}

# Documentation and translations stay out, now and when a sandbox installs packages later.
rootfs_build() {
  local proxy option options=()
  for option in {doc,man,info,locale,lintian,bug,gnome/help}; do
    options+=(--dpkgopt="path-exclude=/usr/share/$option/*")
  done
  options+=(--dpkgopt='path-include=/usr/share/doc/*/copyright')
  proxy=$(apt-config dump --format '%f "%v";%n' Acquire::http::Proxy Acquire::https::Proxy)
  [[ $proxy ]] && options+=(--aptopt="$proxy")
  say "rootfs: installing $(wc -l <<<"$rootfs_closure") packages"
  debian_sources >sources.list
  # Only times later than the newest package list are changed: byte-compiled Python stays valid.
  SOURCE_DATE_EPOCH=$(stat -c %Y /var/lib/apt/lists/*_InRelease | sort -n | tail -n1) \
    mmdebstrap --mode=root --variant=apt --format=tar --include="$(IFS=,; echo "${rootfs_packages[*]}")" \
    --aptopt='Apt::Install-Recommends "false"' "${options[@]}" \
    --customize-hook='rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap' \
    --customize-hook='chroot "$1" dpkg-query -W -f "\${Package}=\${Version}\n" >packages' \
    "$debian_release" rootfs.tar - <sources.list 2>mmdebstrap.log || {
      tail -n 20 mmdebstrap.log >&2
      die 'mmdebstrap failed'
    }
  rm mmdebstrap.log sources.list
}

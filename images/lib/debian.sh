# What the machine's own apt configuration says: no archive host is ever named in this project.
# shellcheck shell=bash

debian_release=$(. /etc/os-release && echo "$VERSION_CODENAME")

# One-line sources of this Debian release (no backports, no third parties), whatever format /etc/apt uses.
debian_sources() {
  local keyring=/usr/share/keyrings/debian-archive-keyring.gpg options=''
  [[ -f $keyring ]] && options="[signed-by=$keyring] "
  apt-get indextargets --format "\$(ORIGIN)|deb $options\$(REPO_URI) \$(RELEASE) \$(COMPONENT)" \
    'Created-By: Packages' |
    awk -F'|' -v r="$debian_release" '$1 == "Debian" && $2 ~ " " r "(-updates|-security)? " { print $2 }' |
    LC_ALL=C sort -u
}

# Step resolve: what apt would install now, kept until its lists or the questions change, so that a run with
# nothing to do asks apt nothing. Files: sources.list, kernel (package and hash), closure (name=version).
resolve_step() {
  local lists=/var/lib/apt/lists
  if ! compgen -G "$lists/*Release" >/dev/null; then
    say 'fetching package lists'
    apt-get update -qq >&2
  fi
  mapfile -t rootfs_packages < <(sed -E 's/#.*//; s/[[:space:]]+//g; /^$/d' "$recipe/packages")
  cached resolve "$(key_of "${rootfs_packages[*]}" "$(stat -c '%n %s %Y' "$lists"/*Release)" \
    "$(hash_of "$here/lib/debian.sh" "$here/lib/kernel.sh")")" resolve_build
  resolved=$result
}

resolve_build() {
  debian_sources >sources.list
  [[ -s sources.list ]] || die "no Debian $debian_release source is configured in /etc/apt"
  kernel_candidate >kernel
  debian_closure sources.list apt "${rootfs_packages[@]}" >closure
  [[ -s closure ]] || die 'apt cannot resolve the packages of the recipe'
}

# debian_closure SOURCES PACKAGE... : all that an installation from nothing would bring.
debian_closure() {
  local sources=$1
  shift
  apt-get --simulate --no-install-recommends -o Debug::NoLocking=1 -o Dir::State::status=/dev/null \
    -o Dir::Etc::SourceList="$PWD/$sources" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null install '?essential' "$@" |
    awk '$1 == "Inst" { gsub(/[()]/, ""); print $2 "=" $3 }' | LC_ALL=C sort
}

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

debian_lists_present() {
  [[ $(debian_sources) ]] && return
  say 'fetching package lists'
  apt-get update -qq >&2
  [[ $(debian_sources) ]] || die "no Debian $debian_release source is configured in /etc/apt"
}

# debian_closure SOURCES PACKAGE... : name=version of all that an installation from nothing would bring.
debian_closure() {
  local sources=$1
  shift
  apt-get --simulate --no-install-recommends -o Debug::NoLocking=1 -o Dir::State::status=/dev/null \
    -o Dir::Etc::SourceList="$sources" -o Dir::Etc::SourceParts=/dev/null -o Dir::Etc::Preferences=/dev/null \
    -o Dir::Etc::PreferencesParts=/dev/null install '?essential' "$@" |
    awk '$1 == "Inst" { gsub(/[()]/, ""); print $2 "=" $3 }' | LC_ALL=C sort
}

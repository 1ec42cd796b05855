# shellcheck shell=bash

command_bench() {
  local name=${1-}
  if [[ ! $name ]]; then
    find bench -mindepth 1 -maxdepth 1 -type f -perm -u+x -printf '%f\n' | LC_ALL=C sort
    return
  fi
  shift
  [[ $name != */* && -f bench/$name && -x bench/$name ]] ||
    die "there is no benchmark '$name'; ./tools/dev bench lists them"
  need_root "bench $name"
  ensure_packages
  [[ ! -f bench/$name.mjs ]] || ensure_node
  build release
  SPACE_BUILD=$release "bench/$name" "$@"
}

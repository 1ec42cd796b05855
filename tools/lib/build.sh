# shellcheck shell=bash

command_build() {
  local preset=${1:-release}
  ensure_packages
  build "$preset"
}

# build PRESET [TARGET...]
build() {
  local preset=$1
  shift
  [[ -d $repo/build/$preset ]] || say "configuring $preset"
  cmake --preset "$preset" >"$repo/build/.$preset.log" 2>&1 || {
    cat "$repo/build/.$preset.log" >&2
    die "configuring $preset failed"
  }
  say "building $preset"
  ninja -C "$repo/build/$preset" "$@" >&2
}

command_clean() {
  case ${1-} in
    '') rm -rf "$repo/build" ;;
    --all)
      need_root 'clean --all'
      rm -rf "$repo/build" /var/cache/space
      ;;
    *) die "clean: unknown argument '$1'" ;;
  esac
}

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
  configure "$preset"
  say "building $preset"
  ninja -C "$repo/build/$preset" "$@" >&2
}

configure() {
  local preset=$1
  mkdir -p "$repo/build"
  [[ -d $repo/build/$preset ]] || say "configuring $preset"
  cmake --preset "$preset" >"$repo/build/.$preset.log" 2>&1 || {
    cat "$repo/build/.$preset.log" >&2
    die "configuring $preset failed"
  }
}

# Begins to build a preset beside what runs, on time that nobody else wants; its output is in build/test-logs/. What it
# has not done when end_build_ahead comes, or did wrong, is for the next `build` of it.
ahead=
build_ahead() {
  (configure "$1") || return 0
  # shellcheck disable=SC2016
  setsid bash -c '
    { echo 19 >/proc/self/autogroup; chrt --idle --pid 0 $$; ionice -c 3 -p $$; } 2>/dev/null
    exec nice -n 19 ninja -C "$1" -j1' _ "$repo/build/$1" </dev/null >"$repo/build/test-logs/$1-build.log" 2>&1 &
  ahead=$!
  trap end_build_ahead EXIT
}
end_build_ahead() {
  [[ -n $ahead ]] || return 0
  kill -TERM -- "-$ahead" 2>/dev/null || true  # of a whole session; ninja removes what is half made
  wait "$ahead" 2>/dev/null || true
  ahead=
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

# Words every part of tools/dev uses.
# shellcheck shell=bash
# shellcheck disable=SC2034 # variables here are read by the other parts
: "${repo:?}"
release=$repo/build/release

say() {
  if [[ -t 2 ]]; then printf '\033[1m==> %s\033[0m\n' "$*" >&2; else printf '==> %s\n' "$*" >&2; fi
}
die() {
  printf 'tools/dev: %s\n' "$*" >&2
  exit 1
}
trap 'printf "tools/dev: failed: %s (%s:%s)\n" "$BASH_COMMAND" "${BASH_SOURCE[0]##*/}" "$LINENO" >&2' ERR

need_root() { ((EUID == 0)) || die "this needs root: sudo ./tools/dev $1"; }

# Milliseconds since some fixed moment.
now_ms() { echo $((${EPOCHREALTIME/./} / 1000)); }

seconds_since() {
  local ms=$(($(now_ms) - $1))
  printf '%d.%d s' $((ms / 1000)) $((ms % 1000 / 100))
}

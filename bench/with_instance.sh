# shellcheck shell=bash
# with_instance PROGRAM ARGS… : runs a benchmark against a SPACE of its own: PROGRAM TEMPLATE_FOLDER ARGS…
# Sourced by the benchmarks' scripts.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tests/lib/instance.sh"

with_instance() {
  local program=$1 manifest
  shift
  instance_up
  for manifest in "$SPACE_STATE"/images/*/manifest.json; do
    "$SPACE_BUILD/bench/$program" "$(dirname "$manifest")" "$@"
    return
  done
  echo "no template in $SPACE_STATE/images" >&2
  return 1
}

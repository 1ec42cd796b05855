# shellcheck shell=bash
# with_node NAME ARGS… : runs bench/NAME.mjs against a SPACE of its own, with the unmodified SDK of tests/e2b. Sourced by the
# benchmarks' scripts. What it promises in memory is not limited: a hundred idle sandboxes use little of theirs.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../tests/lib/instance.sh"
source "$(dirname "${BASH_SOURCE[0]}")/../tests/lib/node_tests.sh"

with_node() {
  local program=$1
  shift
  install_sdks
  export SPACE_UP_ARGUMENTS="--memory-limit-mib 1000000 --pool-mib 65536 --warm-pool-max 64 ${SPACE_UP_ARGUMENTS:-}"
  instance_up
  export SPACE_BENCH_WORK=$INSTANCE/bench
  mkdir "$SPACE_BENCH_WORK"
  node "$repo/bench/$program.mjs" "$@"
}

# A SPACE of its own for one test suite or benchmark: own state, run directory, port and operator configuration.
# Source it, call `instance_up`, use SPACE_API_URL and SPACE_API_KEY; `instance_down` (also on exit) leaves nothing.
#
#   SPACE_BUILD   folder of the built programs (default: build/release of this checkout)
#   SPACE_CACHE   image cache shared between runs (default: /var/cache/space)
#   SPACE_WARM_POOL      parked VMs (default: 0, so that what is counted and killed is what a test made)
#   SPACE_WARM_POOL_MAX  of all kinds together, also after a burst of creates
#   SPACE_UP_ARGUMENTS   more words for `space up`
#   SPACE_SANDBOXD_OPTIONS   words `space up` hands on to space-sandboxd: its faults

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
SPACE_BUILD=${SPACE_BUILD:-$repo/build/release}

free_port() {
  python3 -c 'import socket; s=socket.socket(); s.bind(("127.0.0.1",0)); print(s.getsockname()[1])'
}

space() { "$SPACE_BUILD/space" "$@"; }

instance_up() {
  INSTANCE=$(mktemp -d /tmp/space-instance.XXXXXX)
  chmod 755 "$INSTANCE"
  export HOME=$INSTANCE/home SPACE_STATE=$INSTANCE/state SPACE_RUN=$INSTANCE/run
  mkdir -p "$HOME"
  trap instance_down EXIT
  SPACE_PORT=$(free_port)
  export SPACE_PORT SPACE_BUILD
  unset SPACE_API_URL SPACE_API_KEY E2B_API_URL E2B_API_KEY
  instance_start
  space template build base --state "$SPACE_STATE" --run "$SPACE_RUN" >&2
  read_settings
}

instance_start() {
  # shellcheck disable=SC2086 # words
  space up -d --state "$SPACE_STATE" --run "$SPACE_RUN" --listen "127.0.0.1:$SPACE_PORT" --warm-pool "${SPACE_WARM_POOL:-0}" \
    ${SPACE_WARM_POOL_MAX:+--warm-pool-max "$SPACE_WARM_POOL_MAX"} ${SPACE_UP_ARGUMENTS:-} >&2
}

read_settings() {
  export SPACE_API_URL=http://127.0.0.1:$SPACE_PORT
  SPACE_API_KEY=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["api_key"])' "$HOME/.config/space/config.json")
  export SPACE_API_KEY
}

instance_down() {
  trap - EXIT
  [ -n "${INSTANCE:-}" ] || return 0
  if ! space down --all --state "$SPACE_STATE" --run "$SPACE_RUN" >&2; then
    echo "instance $INSTANCE did not stop cleanly; the end of its log:" >&2
    tail -n 20 "$SPACE_STATE/space.log" >&2
    return 1
  fi
  rm -rf "$INSTANCE"
  INSTANCE=
}
